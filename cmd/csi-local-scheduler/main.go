// Command csi-local-scheduler is kube-scheduler with the plugin LocalCapacity in it.
// Flags, configuration file, logs, metrics and endpoints are kube-scheduler's.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the API client
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
)

func main() {
	os.Exit(cli.Run(newCommand()))
}
