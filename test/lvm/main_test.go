package lvm

import (
	"os"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/lvm/lvmtest"
	"github.com/csi-local/csi-local/test/vm"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func TestMain(m *testing.M) {
	disks := make([]vm.Disk, 6)
	for i := range disks {
		disks[i].SizeBytes = gib / 2
	}
	vm.Main(m, vm.Options{Disks: disks})
}

func disks() []string { return strings.Fields(os.Getenv(vm.EnvDisks)) }

// runners are the two ways in which lvm.Client runs LVM.
func runners() map[string]lvm.Options {
	return map[string]lvm.Options{"Session": {}, "Exec": {PlainExec: true}}
}

func TestContract(t *testing.T) {
	for name, options := range runners() {
		t.Run(name, func(t *testing.T) {
			lvmtest.Run(t, func(t *testing.T) lvmtest.Machine { return lvmtest.NewReal(t, disks(), options) })
		})
	}
}
