package crash

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/csi-local/csi-local/pkg/blockdev"
	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/driver"
	"github.com/csi-local/csi-local/pkg/lvm"
	"github.com/csi-local/csi-local/pkg/poolconfig"
)

const (
	thickGroup = "crash-thick"
	thinGroup  = "crash-thin"
)

// runNode is `csi-local node` with points to die at. It takes the flags that
// nodeproc gives.
func runNode(args []string) error {
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	nodeName := flags.String("node-name", "", "")
	endpoint := flags.String("endpoint", "", "")
	poolsFile := flags.String("pools-file", "", "")
	kubeletDir := flags.String("kubelet-dir", "", "")
	flags.String("metrics-address", "", "not served")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := poolconfig.Load(*poolsFile)
	if err != nil {
		return err
	}
	pools := config.ForNode(*nodeName)
	folder := filepath.Dir(*poolsFile)
	steps := &stepper{file: pointFile(folder)}
	client, err := lvm.NewClient(lvm.Options{
		VolumeGroups: []lvm.VolumeGroupSelector{{Name: thickGroup}, {Name: thinGroup}},
		RunDir:       filepath.Join(folder, "lvm"),
	})
	if err != nil {
		return err
	}
	d, err := driver.New(driver.Options{
		DriverName: capacity.DefaultDriverName, NodeName: *nodeName, Version: "crash",
		Volumes: stepVolumes{client, steps}, Devices: stepDevices{blockdev.Device{}, steps}, Mounter: stepMounter{driver.NewMounter(), steps},
		Pools: func() []poolconfig.Pool { return pools }, KubeletDir: *kubeletDir, MaxVolumes: 100,
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := driver.Listen(ctx, *endpoint)
	if err != nil {
		return err
	}
	return d.Serve(ctx, listener)
}

// pointFile is where a folder's driver reads at which point it is to die.
func pointFile(folder string) string { return filepath.Join(folder, "point") }
