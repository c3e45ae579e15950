package vm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestModuleTree_Order(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.dep": "kernel/md/dm-mod.ko:\nkernel/md/dm-bufio.ko: kernel/md/dm-mod.ko\n" +
			"kernel/md/dm-snapshot.ko: kernel/md/dm-bufio.ko kernel/md/dm-mod.ko\nkernel/fs/overlay.ko.xz:\n",
		"modules.builtin": "kernel/fs/xfs/xfs.ko\nkernel/crypto/aes_generic.ko\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := readModuleTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		module string
		want   []string
		bad    bool
	}{
		{module: "dm-snapshot", want: []string{"kernel/md/dm-mod.ko", "kernel/md/dm-bufio.ko", "kernel/md/dm-snapshot.ko"}},
		{module: "dm_snapshot", want: []string{"kernel/md/dm-mod.ko", "kernel/md/dm-bufio.ko", "kernel/md/dm-snapshot.ko"}},
		{module: "overlay", want: []string{"kernel/fs/overlay.ko.xz"}},
		{module: "xfs"}, {module: "aes-generic"},
		{module: "nosuch", bad: true},
	} {
		got, err := tree.order(tc.module)
		if (err != nil) != tc.bad || !slices.Equal(got, tc.want) {
			t.Errorf("order(%q) = %q, %v; want %q", tc.module, got, err, tc.want)
		}
	}
	if _, err := readModuleTree(t.TempDir()); err == nil {
		t.Error("an empty folder is no error")
	}
}
