package capacity

import (
	"encoding/json"
	"strconv"
)

// PoolFacts are what a capacity report says of one pool. What is not known, or
// cannot be right, is the zero value: the reader assumes its default then.
type PoolFacts struct {
	// ExtentSizeBytes is the pool's allocation unit.
	ExtentSizeBytes int64
	// Filesystem is what a volume gets whose class names none: each has its own
	// least size, see [Filesystem.MinimumBytes].
	Filesystem Filesystem
}

// DecodePoolFacts reads what a node's [ReportAnnotation] says of its pools, by
// their names. It is for those who count volumes: unlike [DecodeReport] it takes
// what can be read of a report that is damaged, or of a newer format, because one
// bad field says nothing about the others. Pools of which nothing can be read are
// not in the answer.
func DecodePoolFacts(report string) map[string]PoolFacts {
	if report == "" || len(report) > MaxAnnotationBytes {
		return nil
	}
	var in map[string]json.RawMessage
	if json.Unmarshal([]byte(report), &in) != nil {
		return nil
	}
	var extentSizes, filesystems map[string]any
	// A field of another form is as good as none.
	_ = json.Unmarshal(in["extentSizes"], &extentSizes)
	_ = json.Unmarshal(in["filesystems"], &filesystems)
	var facts map[string]PoolFacts
	learn := func(pool string, f PoolFacts) {
		if facts == nil {
			facts = map[string]PoolFacts{}
		}
		facts[pool] = f
	}
	for pool, value := range extentSizes {
		text, _ := value.(string)
		size, err := strconv.ParseInt(text, 10, 64)
		if err == nil && size > 0 && size%sectorBytes == 0 {
			learn(pool, PoolFacts{ExtentSizeBytes: size})
		}
	}
	for pool, value := range filesystems {
		text, _ := value.(string)
		if filesystem, known := ParseFilesystem(text); known && filesystem != FilesystemNone {
			learn(pool, PoolFacts{ExtentSizeBytes: facts[pool].ExtentSizeBytes, Filesystem: filesystem})
		}
	}
	return facts
}

// sectorBytes is the unit of LVM's extents.
const sectorBytes = 512
