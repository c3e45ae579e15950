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
	disks := make([]vm.Disk, lvmtest.MinDisks)
	for i := range disks {
		disks[i].SizeBytes = gib / 2
	}
	vm.Main(m, vm.Options{Disks: disks})
}

func disks() []string { return strings.Fields(os.Getenv(vm.EnvDisks)) }

func TestContract(t *testing.T) {
	lvmtest.Run(t, func(t *testing.T) lvmtest.Machine { return lvmtest.NewReal(t, disks(), lvm.Options{}) })
}
