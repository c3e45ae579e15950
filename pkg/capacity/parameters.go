package capacity

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// Keys of class parameters. In the parameters of a class and in the volume
// attributes of an inline volume they mean the same.
const (
	ParamPool        = "pool"
	ParamLayout      = "layout"
	ParamStripes     = "stripes"
	ParamStripeSize  = "stripeSize"
	ParamMirrors     = "mirrors"
	ParamMkfsOptions = "mkfsOptions"
	ParamWipe        = "wipe"
	// ParamFilesystem is Kubernetes' own key. The provisioner takes it out and
	// passes its value in the volume capability; the scheduler sees it here.
	ParamFilesystem = kubernetesPrefix + "fstype"
	// ParamSize is for inline volumes only: the class has no size, the claim has.
	ParamSize = "size"
)

// kubernetesPrefix marks keys that Kubernetes and its sidecars add and that a
// driver has to tolerate, known or not.
const kubernetesPrefix = "csi.storage.k8s.io/"

// Bounds of class parameters.
const (
	// MaxStripes is LVM's own limit (lvcreate(8), --stripes).
	MaxStripes = 128
	// MaxCopies bounds RAID1; more copies on one node protect against nothing
	// that fewer do not.
	MaxCopies = 8
	// MinStripeSizeBytes is LVM's smallest stripe (lvcreate(8), --stripesize).
	MinStripeSizeBytes = 4 << 10
	// MaxStripeSizeBytes is far above what helps; the pool's extent size is the
	// true limit and is checked in [VolumeSize].
	MaxStripeSizeBytes = 1 << 30
	// maxMkfsOptionsBytes bounds the argument list.
	maxMkfsOptionsBytes = 1024
)

// ClassParameters are the parsed parameters of a StorageClass.
type ClassParameters struct {
	// Pool is the pool's name, never empty.
	Pool string
	// Shape is the layout with its numbers. An empty Layout means that the
	// class does not name one: linear in a thick pool, thin in a thin pool.
	Shape Shape
	// Filesystem is the class's csi.storage.k8s.io/fstype, FilesystemNone if it has none.
	Filesystem Filesystem
	// MkfsOptions are arguments for mkfs, in order, nil if there are none.
	MkfsOptions []string
	// Wipe is the class's policy, "" if it leaves that to the pool.
	Wipe WipePolicy
}

// ClassParameterKeys are all keys that a class may have, sorted.
func ClassParameterKeys() []string {
	return []string{ParamFilesystem, ParamLayout, ParamMirrors, ParamMkfsOptions, ParamPool,
		ParamStripeSize, ParamStripes, ParamWipe}
}

// ParseClassParameters reads the parameters of a StorageClass. Every problem is
// in the error, joined, each as a *ParameterError: a misspelt key must not make
// another kind of volume than the user meant. Keys under csi.storage.k8s.io/
// other than fstype are ignored, as sidecars may add them.
//
// What depends on the pool is for [ClassParameters.Validate].
func ParseClassParameters(parameters map[string]string) (ClassParameters, error) {
	r := parameterReader{parameters: parameters, known: ClassParameterKeys()}
	out := r.class()
	if err := r.finish(); err != nil {
		return ClassParameters{}, err
	}
	return out, nil
}

// Validate checks the parameters against the pool they name: a thin pool has no
// layouts, and a class may make a pool's wipe policy stricter, never laxer. An
// empty poolWipe skips that check.
func (p ClassParameters) Validate(pool PoolType, poolWipe WipePolicy) error {
	var problems []error
	if pool == PoolThin && p.Shape.Layout != "" {
		problems = append(problems, &ParameterError{Key: ParamLayout, Value: string(p.Shape.Layout),
			Problem: "pool " + p.Pool + " is thin, and a thin pool decides the layout of all its volumes",
			Want:    "no layout, or a thick pool"})
	}
	if p.Wipe != "" && poolWipe != "" && !p.Wipe.AtLeast(poolWipe) {
		problems = append(problems, &ParameterError{Key: ParamWipe, Value: string(p.Wipe),
			Problem: "is less strict than the policy of pool " + p.Pool + ", which is " + string(poolWipe),
			Want:    "no wipe, or a policy as strict as the pool's"})
	}
	return errors.Join(problems...)
}

// ShapeIn returns the shape of the class's volumes in a pool of that type, with
// the defaults filled in. The parameters must be valid for it.
func (p ClassParameters) ShapeIn(pool PoolType) Shape {
	switch {
	case pool == PoolThin:
		return Shape{Layout: LayoutThin}
	case p.Shape.Layout == "":
		return Shape{Layout: LayoutLinear}
	default:
		return p.Shape
	}
}

// WipeIn returns the policy for the class's volumes in a pool with that policy.
func (p ClassParameters) WipeIn(poolWipe WipePolicy) WipePolicy {
	if p.Wipe != "" && p.Wipe.AtLeast(poolWipe) {
		return p.Wipe
	}
	return poolWipe
}

// parameterReader takes the known keys out of a parameter map and collects problems.
type parameterReader struct {
	parameters map[string]string
	known      []string
	problems   []error
}

func (r *parameterReader) add(key, value, problem, want string) {
	r.problems = append(r.problems, &ParameterError{Key: key, Value: value, Problem: problem, Want: want})
}

// class reads all keys of a class that are in r.known.
func (r *parameterReader) class() ClassParameters {
	return ClassParameters{
		Pool:        r.pool(),
		Shape:       r.shape(),
		Filesystem:  r.filesystem(),
		MkfsOptions: r.mkfsOptions(),
		Wipe:        r.wipe(),
	}
}

// finish reports unknown keys and returns all problems, in a stable order.
func (r *parameterReader) finish() error {
	for _, key := range slices.Sorted(maps.Keys(r.parameters)) {
		if slices.Contains(r.known, key) || strings.HasPrefix(key, kubernetesPrefix) {
			continue
		}
		if key == ParamSize {
			r.problems = append(r.problems, &ParameterError{Key: key, Problem: "is for inline volumes only", Want: "the size in the claim"})
			continue
		}
		want := "one of " + strings.Join(r.known, ", ")
		if closest := ClosestName(key, r.known); closest != "" {
			want = closest
		}
		r.problems = append(r.problems, &ParameterError{Key: key, Problem: "unknown parameter", Want: want})
	}
	return errors.Join(r.problems...)
}
