package orphans

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Adoption says what a volume's tags do not say about its new PersistentVolume.
type Adoption struct {
	// StorageClass is the class' name; empty for none.
	StorageClass string
	// AccessMode is ReadWriteOnce if empty; ReadWriteOncePod and ReadOnlyMany are the others.
	AccessMode v1.PersistentVolumeAccessMode
	// VolumeMode is what the volume says if empty: Filesystem if one was made on
	// it or no pod has used it, else Block.
	VolumeMode v1.PersistentVolumeMode
}

// Adopt returns the PersistentVolume that brings an orphan back, with its data. It
// changes nothing. The error says what of the adoption is wrong.
//
// Its name is the CSI name, because that is where it will be looked for, and its
// reclaim policy is Retain.
func (k *Keeper) Adopt(v Volume, how Adoption) (*v1.PersistentVolume, error) {
	if how.AccessMode == "" {
		how.AccessMode = v1.ReadWriteOnce
	}
	if modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod, v1.ReadOnlyMany}; !slices.Contains(modes, how.AccessMode) {
		return nil, fmt.Errorf("access mode %q: must be one of %v", how.AccessMode, modes)
	}
	likely := v1.PersistentVolumeFilesystem
	if v.Used && v.Filesystem == "" {
		likely = v1.PersistentVolumeBlock
	}
	switch how.VolumeMode {
	case "":
		how.VolumeMode = likely
	case v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock:
		if v.Used && how.VolumeMode != likely {
			return nil, fmt.Errorf("volume mode %s: the volume was used as %s", how.VolumeMode, likely)
		}
	default:
		return nil, fmt.Errorf("volume mode %q: must be %s or %s", how.VolumeMode, v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock)
	}
	source := &v1.CSIPersistentVolumeSource{Driver: k.opts.DriverName, VolumeHandle: v.ID, VolumeAttributes: v.Attributes}
	if how.VolumeMode == v1.PersistentVolumeFilesystem {
		source.FSType = v.Filesystem
	}
	return &v1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: v.Name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": k.opts.DriverName}},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(v.SizeBytes, resource.BinarySI)},
			AccessModes:                   []v1.PersistentVolumeAccessMode{how.AccessMode},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			StorageClassName:              how.StorageClass,
			VolumeMode:                    &how.VolumeMode,
			PersistentVolumeSource:        v1.PersistentVolumeSource{CSI: source},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{
					Key: capacity.TopologyKey(k.opts.DriverName), Operator: v1.NodeSelectorOpIn, Values: []string{k.opts.NodeName},
				}},
			}}}},
		},
	}, nil
}
