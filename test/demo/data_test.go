package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

func TestCheckZeros_FindsOneByteOfSomebodyElse(t *testing.T) {
	const size = 3*chunkBytes + 4096
	for name, foreign := range map[string]int64{"none": -1, "first byte": 0, "last byte": size - 1, "in between": 2*chunkBytes + 5} {
		t.Run(name, func(t *testing.T) {
			data := make([]byte, size)
			if foreign >= 0 {
				data[foreign] = pattern
			}
			path := filepath.Join(t.TempDir(), "device")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			count, err := checkZeros(context.Background(), path)
			if foreign >= 0 {
				if err == nil {
					t.Fatalf("byte %d is not zero, and nothing was said", foreign)
				}
				return
			}
			if err != nil || count != size {
				t.Errorf("read %d of %d bytes: %v", count, size, err)
			}
		})
	}
}
