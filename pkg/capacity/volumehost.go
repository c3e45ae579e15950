package capacity

import v1 "k8s.io/api/core/v1"

// VolumeHost finds the node of a PersistentVolume of the driver: by its required
// node affinity for the driver's topology key, else by its hostname, in the node
// affinity or as the label kubernetes.io/hostname. byHostname tells that host is
// the value of the Node's hostname label and not its name; host is "" if nothing
// says where the volume is. Only a requirement of exactly one value counts.
func VolumeHost(driverName string, v *v1.PersistentVolume) (host string, byHostname bool) {
	var hostname string
	if v.Spec.NodeAffinity != nil && v.Spec.NodeAffinity.Required != nil {
		for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Operator != v1.NodeSelectorOpIn || len(e.Values) != 1 {
					continue
				}
				switch e.Key {
				case TopologyKey(driverName):
					return e.Values[0], false
				case v1.LabelHostname:
					hostname = e.Values[0]
				}
			}
		}
	}
	if hostname == "" {
		hostname = v.Labels[v1.LabelHostname]
	}
	return hostname, hostname != ""
}
