package power

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Operations of the load.
const (
	opCreate = "create"
	opDelete = "delete"
	opExpand = "expand"
	opWrite  = "write"
)

// fact is one line of the journal. An operation writes one before it begins and
// one when it was answered, so after a power cut the journal tells what must be
// so (Done) and what may be so (begun only).
type fact struct {
	Op     string
	Done   bool
	Volume string // the CSI name
	// FSType, Pool and SizeBytes are those of the claim; SizeBytes of an
	// expansion is the new size.
	FSType    string `json:",omitempty"`
	Pool      string `json:",omitempty"`
	SizeBytes int64  `json:",omitempty"`
	// ID and CapacityBytes are what the driver answered.
	ID            string `json:",omitempty"`
	CapacityBytes int64  `json:",omitempty"`
	// Slot and Seed say which piece of the volume was written, and with what.
	Slot int   `json:",omitempty"`
	Seed int64 `json:",omitempty"`
}

// journal is a file outside of the machine whose power is cut.
type journal struct {
	mu   sync.Mutex
	file *os.File
}

// openJournal cuts off a torn last line, so that what follows stays readable.
func openJournal(path string) (*journal, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: file}, file.Truncate(int64(bytes.LastIndexByte(data, '\n') + 1))
}

// record returns when the fact is safe from the power cut.
func (j *journal) record(f fact) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return err
	}
	return j.file.Sync()
}

// history is what the journal says about one volume.
type history struct {
	claim    fact // the begun creation
	created  bool
	deleting bool
	deleted  bool
	id       string
	// minBytes is the largest size that was answered.
	minBytes int64
	// slots are the writes that were answered with success: slot to seed. A slot
	// with a write begun and not answered holds one or the other, or a mixture.
	slots     map[int]int64
	uncertain map[int]bool
}

// readJournal returns the history of every volume that was ever begun, by name.
// A torn last line is what the power cut left of a fact that was never relied on.
func readJournal(path string) (map[string]*history, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return map[string]*history{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	volumes := map[string]*history{}
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return volumes, nil
		}
		if err != nil {
			return nil, err
		}
		var f fact
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, fmt.Errorf("journal line %d: %w", number, err)
		}
		apply(volumes, f)
	}
}

func apply(volumes map[string]*history, f fact) {
	h := volumes[f.Volume]
	if h == nil {
		h = &history{claim: f, slots: map[int]int64{}, uncertain: map[int]bool{}}
		volumes[f.Volume] = h
	}
	switch f.Op {
	case opCreate:
		if f.Done {
			h.created, h.id, h.minBytes = true, f.ID, max(h.minBytes, f.CapacityBytes)
		}
	case opExpand:
		if f.Done {
			h.minBytes = max(h.minBytes, f.CapacityBytes)
		}
	case opDelete:
		h.deleting = true
		h.deleted = h.deleted || f.Done
	case opWrite:
		h.uncertain[f.Slot] = !f.Done
		if f.Done {
			h.slots[f.Slot] = f.Seed
		}
	}
}
