package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// spec is what the throwaway kernel's init is told. It goes through a file and not
// through the kernel's command line, so no argument is too long or too odd; bytes and
// not strings, because arguments need not be UTF-8.
type spec struct {
	Args    [][]byte
	Env     [][]byte
	Dir     []byte
	Shares  []specShare
	Modules []string
	Udev    bool
	Address string // on the network; empty for none
	// Seed makes the kernel's random numbers ready at once; a kernel without a clock
	// that jitters gathers them for seconds.
	Seed []byte
}

type specShare struct{ Host, Guest []byte }

const specName = "spec.json"

func (s *spec) write(dir string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, specName), data, 0o600)
}

func readSpec(dir string) (*spec, error) {
	data, err := os.ReadFile(filepath.Join(dir, specName))
	if err != nil {
		return nil, err
	}
	var s spec
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", specName, err)
	}
	return &s, nil
}

func bytesOf(texts []string) [][]byte {
	out := make([][]byte, len(texts))
	for i, text := range texts {
		out[i] = []byte(text)
	}
	return out
}

func stringsOf(raw [][]byte) []string {
	out := make([]string, len(raw))
	for i, b := range raw {
		out[i] = string(b)
	}
	return out
}
