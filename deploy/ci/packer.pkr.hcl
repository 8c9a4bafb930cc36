# Fail the build of an image that would make zombies: on the booted builder, then the finished disk, from its files and booted again.
# Goes into your template; `source.qemu.node` stands for your own source. ci/zombiescope is the one-file build (make onefile), kept in
# your repository or fetched from your own artifact store. SPDX-License-Identifier: Apache-2.0
build {
  sources = ["source.qemu.node"]

  provisioner "file" {
    source      = "ci/zombiescope"
    destination = "/tmp/zombiescope"
  }

  provisioner "file" {
    source      = "gate.toml" # limits and waivers: what, reason, expires, owner
    destination = "/tmp/gate.toml"
  }

  # Last of all provisioners. Exit status 0 passes; 1, 2 and 3 (could not look) stop the build.
  provisioner "shell" {
    inline = [
      "chmod +x /tmp/zombiescope",
      "sudo /tmp/zombiescope audit --seconds 5",
      "sudo /tmp/zombiescope check --config /tmp/gate.toml --for 10m",
      "sudo rm -f /tmp/zombiescope /tmp/gate.toml",
    ]
  }

  # The finished disk, as it will be published: any format that QEMU writes. For a snapshot of a cloud disk that is attached
  # read-only, give its device: --image /dev/nvme1n1.
  post-processor "shell-local" {
    inline = [
      "./ci/zombiescope check --image output/node.qcow2 --config gate.toml",
      "./ci/zombiescope check --boot output/node.qcow2 --for 2m",
    ]
  }
}
