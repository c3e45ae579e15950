package storm

import (
	"cmp"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// schedulerConfig is what a scheduler's configuration file differs in from the
// one that ships.
type schedulerConfig struct {
	// shipped is the path of the one that ships.
	shipped string
	// kubeconfig is the administrator's.
	kubeconfig string
	// stock leaves the plugin out.
	stock bool
	// name is the profile's; schedulerName if empty.
	name string
	// quickLease moves leadership within seconds, where 15 are the default.
	quickLease bool
	// alone leaves out leader election, and unlimited the limit on requests.
	alone, unlimited bool
}

// unlimitedQPS is far above what one machine answers.
const unlimitedQPS = 100000

// render returns the file's content.
func (c schedulerConfig) render() ([]byte, error) {
	text, err := os.ReadFile(c.shipped)
	if err != nil {
		return nil, err
	}
	var file map[string]any
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", c.shipped, err)
	}
	connection, isMap := file["clientConnection"].(map[string]any)
	election, isMapToo := file["leaderElection"].(map[string]any)
	profiles, isList := file["profiles"].([]any)
	if !isMap || !isMapToo || !isList || len(profiles) != 1 {
		return nil, fmt.Errorf("%s: clientConnection, leaderElection and one profile are wanted", c.shipped)
	}
	connection["kubeconfig"] = c.kubeconfig
	connection["qps"], connection["burst"] = schedulerQPS, schedulerBurst
	if c.unlimited {
		connection["qps"], connection["burst"] = unlimitedQPS, unlimitedQPS
	}
	if c.alone {
		election["leaderElect"] = false
	}
	if c.quickLease {
		election["leaseDuration"], election["renewDeadline"], election["retryPeriod"] = "6s", "4s", "500ms"
	}
	profile, isMap := profiles[0].(map[string]any)
	if !isMap || c.stock {
		profile = map[string]any{}
	}
	profile["schedulerName"] = cmp.Or(c.name, schedulerName)
	profiles[0] = profile
	return yaml.Marshal(file)
}

// write puts the content into a file of its own and returns its path, and what
// takes it away.
func (c schedulerConfig) write() (path string, remove func() error, err error) {
	content, err := c.render()
	if err != nil {
		return "", nil, err
	}
	file, err := os.CreateTemp("", "storm-scheduler-*.yaml")
	if err != nil {
		return "", nil, err
	}
	if _, err = file.Write(content); err == nil {
		err = file.Close()
	}
	return file.Name(), func() error { return os.Remove(file.Name()) }, err
}
