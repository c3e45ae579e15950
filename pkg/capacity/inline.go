package capacity

import (
	"maps"
	"slices"
)

// InlineParameters are the parsed volume attributes of a CSI inline volume.
type InlineParameters struct {
	ClassParameters
	// SizeBytes is the requested size, > 0.
	SizeBytes int64
}

// InlineParameterKeys are all keys that an inline volume may have, sorted.
//
// mkfsOptions is missing on purpose: a class is written by an administrator, an
// inline volume by whoever may create a pod, and some options make mkfs read
// files of the node.
func InlineParameterKeys() []string {
	keys := append(ClassParameterKeys(), ParamSize)
	slices.Sort(keys)
	return slices.DeleteFunc(keys, func(k string) bool { return k == ParamMkfsOptions })
}

// ParseInlineParameters reads the volume attributes of a CSI inline volume: the
// keys of a class except mkfsOptions, and size, which is required. The size may
// not be above maxBytes, the pool's bound; 0 means that the pool takes no
// inline volumes. A negative maxBytes means that the pool, and so its bound, is
// not known here. All problems are joined, each a *ParameterError. Keys under
// csi.storage.k8s.io/ are tolerated, as kubelet adds some.
func ParseInlineParameters(attributes map[string]string, maxBytes int64) (InlineParameters, error) {
	r := parameterReader{parameters: attributes, known: InlineParameterKeys()}
	if _, ok := attributes[ParamMkfsOptions]; ok {
		r.add(ParamMkfsOptions, attributes[ParamMkfsOptions], "is not allowed in an inline volume",
			"a StorageClass with mkfsOptions and a generic ephemeral volume")
		r.parameters = maps.Clone(attributes)
		delete(r.parameters, ParamMkfsOptions)
	}
	out := InlineParameters{ClassParameters: r.class(), SizeBytes: r.size(maxBytes)}
	if err := r.finish(); err != nil {
		return InlineParameters{}, err
	}
	return out, nil
}

func (r *parameterReader) size(maxBytes int64) int64 {
	value, ok := r.parameters[ParamSize]
	if !ok {
		r.add(ParamSize, "", "is missing", "a quantity such as 10Gi")
		return 0
	}
	bytes, err := ParseBytes(value)
	switch {
	case err != nil:
		r.add(ParamSize, value, err.Error(), "a quantity such as 10Gi")
	case bytes == 0:
		r.add(ParamSize, value, "is zero", "a quantity such as 10Gi")
	case maxBytes == 0:
		r.add(ParamSize, value, "the pool takes no inline volumes", "a pool with maxInlineSize set")
	case maxBytes > 0 && bytes > maxBytes:
		r.add(ParamSize, value, "is more than the pool allows for one inline volume", "at most "+FormatBytes(maxBytes))
	}
	return bytes
}
