package images

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteArchive_IsWhatAnImportWants(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	err := writeArchive(file, []string{"example/a:1", "example/a:2"}, start{entrypoint: []string{"/program", "argument"}}, []layerFile{
		{name: "bin/"}, {name: "bin/program", content: []byte("content")}, {name: "program", link: "bin/program"},
	})
	if err != nil {
		t.Fatal(err)
	}
	archive := readTar(t, file)
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(archive["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || !slices.Equal(manifest[0].RepoTags, []string{"example/a:1", "example/a:2"}) || len(manifest[0].Layers) != 1 {
		t.Fatalf("manifest %+v", manifest)
	}
	var config struct {
		OS     string
		Config struct{ Entrypoint []string }
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(archive[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(archive[manifest[0].Layers[0]])
	want := []string{"sha256:" + hex.EncodeToString(digest[:])}
	if diff := cmp.Diff(want, config.Rootfs.DiffIDs); diff != "" || config.OS != "linux" || len(config.Config.Entrypoint) != 2 {
		t.Errorf("configuration %+v, layers -want +got:\n%s", config, diff)
	}
	layer := filepath.Join(t.TempDir(), "layer.tar")
	if err := os.WriteFile(layer, archive[manifest[0].Layers[0]], 0o600); err != nil {
		t.Fatal(err)
	}
	wantFiles := map[string][]byte{"bin/": nil, "bin/program": []byte("content"), "program": []byte("→ bin/program")}
	if diff := cmp.Diff(wantFiles, readTar(t, layer)); diff != "" {
		t.Errorf("files -want +got:\n%s", diff)
	}
}

func readTar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files := map[string][]byte{}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		switch header.Typeflag {
		case tar.TypeReg:
			files[header.Name] = content
		case tar.TypeSymlink:
			files[header.Name] = []byte("→ " + header.Linkname)
		default:
			files[header.Name] = nil
		}
	}
}

func TestNamed_KnowsEachImageOfTheManifests(t *testing.T) {
	repository, err := Repository(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names, err := (&builder{ctx: t.Context(), repository: repository}).named()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 4 {
		t.Errorf("the manifests name %q; want ours, the scheduler's, the provisioner's and the resizer's", names)
	}
	if _, err := (&builder{ctx: t.Context()}).build("example.com/unknown:v1"); err == nil {
		t.Error("an image of unknown origin was built")
	}
}

func TestMake_OnlyWhenTheKeyIsAnother(t *testing.T) {
	b := &builder{ctx: t.Context(), progress: io.Discard}
	archive, made := filepath.Join(t.TempDir(), "image.tar"), 0
	write := func(content string) func(string) error {
		return func(partial string) error {
			made++
			return os.WriteFile(partial, []byte(content), 0o600)
		}
	}
	broken := errors.New("broken")
	for i, tc := range []struct {
		key   string
		write func(string) error
		want  string
		made  int
		err   error
	}{
		{"1", write("one"), "one", 1, nil},
		{"1", write("other"), "one", 1, nil},
		{"2", func(string) error { return broken }, "one", 1, broken},
		{"2", write("two"), "two", 2, nil},
		{"1", write("one again"), "one again", 3, nil},
	} {
		if err := b.make(archive, tc.key, tc.write); !errors.Is(err, tc.err) {
			t.Errorf("%d: error %v", i, err)
		}
		content, err := os.ReadFile(archive)
		if err != nil || string(content) != tc.want || made != tc.made {
			t.Errorf("%d: %q, made %d times, %v; want %q, %d", i, content, made, err, tc.want, tc.made)
		}
	}
}
