package lvm

import (
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
)

// What pkg/lvm refuses before it asks LVM must be what LVM refuses.
func TestNames_AreJudgedAsLVMDoes(t *testing.T) {
	r := lvmtest.NewReal(t, disks(), lvm.Options{})
	r.AddGroup(t, "vgA", 4*mib, 1)
	ask := func(args ...string) error {
		_, err := r.Try("lvm", append([]string{"lvcreate", "--test", "-y", "-an", "-Zn", "-Wn", "-l", "1"}, append(args, "vgA")...)...)
		return err
	}
	for _, name := range lvmtest.GoodNames() {
		if err := ask("-n", name); err != nil {
			t.Errorf("LVM refuses the name %q: %v", name, err)
		}
	}
	for _, name := range lvmtest.BadNames() {
		if strings.ContainsRune(name, 0) {
			continue // no argument can have it
		}
		if err := ask("-n", name); err == nil {
			t.Errorf("LVM takes the name %q", name)
		}
	}
	for _, tag := range lvmtest.BadTags() {
		if err := ask("-n", "x", "--addtag", tag); err == nil {
			t.Errorf("LVM takes the tag %.40q", tag)
		}
	}
}
