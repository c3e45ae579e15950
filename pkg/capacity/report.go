package capacity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// ErrReport: the capacity report of a node cannot be read. It says nothing
// about the figures beside it.
var ErrReport = errors.New("unreadable capacity report")

// ReportFormat is the newest form of the report that this version writes and
// understands completely.
const ReportFormat = 1

// Report is the value of [ReportAnnotation]: who wrote the pools' figures last,
// and what a scheduler needs beside them. It is written together with the
// figures and not otherwise, so it holds nothing that changes by itself.
type Report struct {
	// Format is [ReportFormat], or more if a newer version wrote the report.
	Format int
	// Writer is the version of the program that wrote it.
	Writer string
	// BootID is the kernel's at that time (/proc/sys/kernel/random/boot_id).
	BootID string
	// Generation grows by one with each write.
	Generation int64
	// Changed is when the figures changed last, by the node's clock, in whole
	// seconds. It is for people; nothing is decided by it.
	Changed time.Time
	// ExtentSizes are the pools' allocation units in bytes.
	ExtentSizes map[string]int64
	// Filesystems are what volumes get whose class names none.
	Filesystems map[string]Filesystem
}

// reportJSON is the wire form. Amounts of bytes are decimal strings, as in the
// pools' annotation.
type reportJSON struct {
	BootID      string                `json:"bootID"`
	Changed     string                `json:"changed"`
	ExtentSizes map[string]string     `json:"extentSizes,omitempty"`
	Filesystems map[string]Filesystem `json:"filesystems,omitempty"`
	Format      int                   `json:"format"`
	Generation  int64                 `json:"generation"`
	Writer      string                `json:"writer"`
}

// EncodeReport returns the annotation's value; equal reports give equal bytes.
func EncodeReport(r Report) (string, error) {
	if problem := r.problem(); problem != "" {
		return "", fmt.Errorf("%w: %s", ErrReport, problem)
	}
	out := reportJSON{
		BootID: r.BootID, Changed: r.Changed.UTC().Format(time.RFC3339), Format: r.Format, Generation: r.Generation, Writer: r.Writer,
		Filesystems: r.Filesystems,
	}
	for pool, size := range r.ExtentSizes {
		if out.ExtentSizes == nil {
			out.ExtentSizes = map[string]string{}
		}
		out.ExtentSizes[pool] = strconv.FormatInt(size, 10)
	}
	value, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrReport, err)
	}
	if len(value) > MaxAnnotationBytes {
		return "", fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrReport, len(value), MaxAnnotationBytes)
	}
	return string(value), nil
}

// DecodeReport reads what [EncodeReport] wrote. Unknown fields are errors,
// except in a report whose format is newer: of that, what is known is read, so
// that an older program learns who wrote it. Errors match [ErrReport].
func DecodeReport(value string) (Report, error) {
	if len(value) > MaxAnnotationBytes {
		return Report{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrReport, len(value), MaxAnnotationBytes)
	}
	var head struct {
		Format int    `json:"format"`
		Writer string `json:"writer"`
	}
	if err := json.Unmarshal([]byte(value), &head); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if head.Format > ReportFormat {
		return Report{Format: head.Format, Writer: head.Writer}, nil
	}
	var in reportJSON
	dec := json.NewDecoder(bytes.NewReader([]byte(value)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Report{}, fmt.Errorf("%w: something follows the object", ErrReport)
	}
	return in.report()
}

func (in reportJSON) report() (Report, error) {
	r := Report{Format: in.Format, Writer: in.Writer, BootID: in.BootID, Generation: in.Generation}
	if len(in.Filesystems) > 0 {
		r.Filesystems = in.Filesystems
	}
	var err error
	if r.Changed, err = time.Parse(time.RFC3339, in.Changed); err != nil {
		return Report{}, fmt.Errorf("%w: changed: %w", ErrReport, err)
	}
	for pool, text := range in.ExtentSizes {
		size, problem := decodeBytes(strconv.AppendQuote(nil, text))
		if problem != "" {
			return Report{}, fmt.Errorf("%w: extent size of pool %q: %s", ErrReport, pool, problem)
		}
		if r.ExtentSizes == nil {
			r.ExtentSizes = map[string]int64{}
		}
		r.ExtentSizes[pool] = size
	}
	if problem := r.problem(); problem != "" {
		return Report{}, fmt.Errorf("%w: %s", ErrReport, problem)
	}
	return r, nil
}

func (r Report) problem() string {
	switch {
	case r.Format < 1:
		return "format is below 1"
	case r.Writer == "":
		return "writer is empty"
	case r.Generation < 1:
		return "generation is below 1"
	case r.Changed.Nanosecond() != 0:
		return "changed is not in whole seconds"
	}
	for pool, size := range r.ExtentSizes {
		if problem := poolNameProblem(pool); problem != "" {
			return problem
		}
		if size <= 0 {
			return fmt.Sprintf("extent size of pool %q is not positive", pool)
		}
	}
	for pool, filesystem := range r.Filesystems {
		if problem := poolNameProblem(pool); problem != "" {
			return problem
		}
		if _, known := ParseFilesystem(string(filesystem)); !known || filesystem == FilesystemNone {
			return fmt.Sprintf("file system of pool %q is %q", pool, filesystem)
		}
	}
	return ""
}
