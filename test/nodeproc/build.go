package nodeproc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles csi-local for a user of that name and returns the executable's
// path, which is the same each time: in the user's cache folder, so that a
// machine which sees the host's files finds it and nothing has to be removed.
func Build(ctx context.Context, user string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "csi-local", user, "csi-local")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/csi-local/csi-local/cmd/csi-local")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, output)
	}
	return path, nil
}
