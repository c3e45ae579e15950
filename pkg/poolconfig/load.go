package poolconfig

import (
	"fmt"
	"io"
	"os"
)

// MaxFileBytes bounds the file; a ConfigMap holds at most 1 MiB.
const MaxFileBytes = 1 << 20

// Load reads and parses the file. The error names the path and holds every
// problem (*Problem), or what kept the file from being read.
func Load(path string) (Config, error) {
	data, err := read(path)
	if err != nil {
		return Config{}, err
	}
	return parseFile(path, data)
}

func parseFile(path string, data []byte) (Config, error) {
	config, err := Parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("pools file %s:\n%w", path, err)
	}
	return config, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("pools file: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("pools file %s: %w", path, err)
	}
	return data, nil
}
