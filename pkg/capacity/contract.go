package capacity

import "fmt"

// DefaultDriverName is the CSI driver's name and the provisioner of its classes
// unless the administrator chose another.
const DefaultDriverName = "kubernetes.io.csi.local"

// MaxAnnotationBytes is the most that a Node's annotations may hold together
// (Kubernetes refuses an object with more), so a longer value is not ours.
const MaxAnnotationBytes = 256 << 10

// PoolsAnnotation returns the key of the Node annotation that holds the
// allocatable bytes of each pool of the driver, in the form of [EncodePools].
func PoolsAnnotation(driverName string) string { return "csi.volume.kubernetes.io/" + driverName }

// ReportAnnotation returns the key of the Node annotation that says who wrote
// [PoolsAnnotation] last.
func ReportAnnotation(driverName string) string { return driverName + "/capacity-report" }

// PauseAnnotation returns the key of the Node annotation by which an operator pins
// what the node publishes: any value but "" and "false" does.
func PauseAnnotation(driverName string) string { return driverName + "/capacity-pause" }

// TopologyKey returns the topology key whose value is the node's name
// (CSI specification, NodeGetInfo accessible_topology).
func TopologyKey(driverName string) string { return driverName + "/node" }

// maxPoolNameBytes bounds pool names: they stand in LVM tags and metric labels.
const maxPoolNameBytes = 63

// ValidatePoolName checks a pool's name: 1 to 63 letters, digits, '-', '_' and
// '.', the first and last a letter or digit. Such a name needs no quoting in
// YAML, in JSON, in LVM tags or in metric labels.
func ValidatePoolName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("pool name is empty")
	case len(name) > maxPoolNameBytes:
		return fmt.Errorf("pool name has %d bytes, at most %d are allowed", len(name), maxPoolNameBytes)
	}
	for i := range len(name) {
		c := name[i]
		if isAlphanumeric(c) || ((c == '-' || c == '_' || c == '.') && i > 0 && i < len(name)-1) {
			continue
		}
		return fmt.Errorf("pool name %q: letters, digits, '-', '_' and '.' are allowed, first and last a letter or digit", name)
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
