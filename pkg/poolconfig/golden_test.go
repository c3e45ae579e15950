package poolconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each file of testdata/invalid has what is wrong with it, word for word, in the
// .txt beside it. UPDATE_GOLDEN=1 writes what Parse says now.
func TestParse_Problems(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid/*.yaml")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			config, err := Parse(data)
			if err == nil {
				t.Fatalf("no problem found: %+v", config)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%T does not match ErrInvalid", err)
			}
			if diff := cmp.Diff(Config{}, config, cmp.AllowUnexported(Config{})); diff != "" {
				t.Errorf("a file with problems was used in part: %s", diff)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if diff := cmp.Diff(string(want), err.Error()+"\n"); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParse_TooLarge(t *testing.T) {
	data := "pools: []\n" + strings.Repeat("#\n", MaxFileBytes/2)
	if _, err := Parse([]byte(data)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

// A few bytes that stand for gigabytes must be refused and not be expanded.
func TestParse_AliasesAreNotExpanded(t *testing.T) {
	var b strings.Builder
	b.WriteString("a: &a [x,x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c <= 'k'; c++ {
		ref := "*" + string(c-1)
		b.WriteString(string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat(ref+",", 10), ",") + "]\n")
	}
	b.WriteString("pools: *k\n")
	_, err := Parse([]byte(b.String()))
	if !errors.Is(err, ErrInvalid) || len(err.Error()) > 2000 {
		t.Errorf("got %v", err)
	}
}
