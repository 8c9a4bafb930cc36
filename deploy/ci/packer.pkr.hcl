# Fail the build of an image that would make zombies: first from its files, then booted, for ten minutes.
# Goes into your template; `source.amazon-ebs.node` stands for your own source. SPDX-License-Identifier: Apache-2.0
build {
  sources = ["source.amazon-ebs.node"]

  provisioner "file" {
    source      = "dist/zombiescope.pyz" # one file, needs a plain python3 (make pyz)
    destination = "/tmp/zombiescope"
  }

  provisioner "file" {
    source      = "gate.toml" # limits and waivers: what, reason, expires
    destination = "/tmp/gate.toml"
  }

  # Last of all provisioners. Exit status 0 passes; 1, 2 and 3 (could not look) stop the build.
  provisioner "shell" {
    inline = [
      "sudo python3 /tmp/zombiescope audit",
      "sudo python3 /tmp/zombiescope check --config /tmp/gate.toml --for 10m",
      "sudo rm -f /tmp/zombiescope /tmp/gate.toml",
    ]
  }
}
