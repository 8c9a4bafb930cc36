// SPDX-License-Identifier: Apache-2.0
// One program for a test node: the part is chosen by the first argument or by the name it is called with.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var parts = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand() },
}

func main() {
	rand.Seed(time.Now().UnixNano())
	name := filepath.Base(os.Args[0])
	make, known := parts[name]
	if !known && len(os.Args) > 1 {
		make, known = parts[os.Args[1]]
		os.Args = os.Args[1:]
	}
	if !known {
		fmt.Fprintln(os.Stderr, "hyper kube-apiserver|kube-controller-manager|kube-scheduler|kubelet ...")
		os.Exit(2)
	}
	command := make()
	logs.InitLogs()
	defer logs.FlushLogs()
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}
