package testbed

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// BuildLocalScheduler builds csi-local-scheduler as it ships, from the sources as
// they are now, and returns its path in the folder.
func BuildLocalScheduler(ctx context.Context, folder string) (string, error) {
	kube, err := moduleDir(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "csi-local-scheduler")
	repository := filepath.Join(kube, "..", "..", "..")
	build := exec.CommandContext(ctx, "make", "-C", repository, "build-scheduler", "SCHEDULER_BIN="+path)
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", build, err, output)
	}
	return path, nil
}
