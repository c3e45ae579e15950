package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/csi-local/csi-local/pkg/doctor"
)

// root is the root of the repository, for tests in folders of test/.
const root = "../.."

// Console is a person with a shell in the root of the repository, who has kubectl, and
// csi-local as a command and as a plugin of kubectl.
type Console struct {
	// Kubeconfig is the person's, Path that of [Programs], and Cache a folder for kubectl.
	Kubeconfig, Path, Cache string
}

// Programs builds csi-local into the folder and returns a PATH that has it and kubectl.
func Programs(ctx context.Context, folder, kubectl string) (path string, err error) {
	output, err := exec.CommandContext(ctx, "make", "-C", root, "kubectl-plugin", "PLUGIN="+filepath.Join(folder, "kubectl-csi_local")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building csi-local: %w\n%s", err, output)
	}
	err = errors.Join(os.Symlink("kubectl-csi_local", filepath.Join(folder, "csi-local")), os.Symlink(kubectl, filepath.Join(folder, "kubectl")))
	return folder + ":" + os.Getenv("PATH"), err
}

// Run runs a command of bash, which ends at its first failure. That it has failed is no
// error, but its code.
func (c Console) Run(ctx context.Context, text string) (stdout, stderr string, code int, err error) {
	command := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail; "+text)
	command.Dir = root
	command.Env = append(os.Environ(), "PATH="+c.Path, "KUBECONFIG="+c.Kubeconfig, "KUBECACHEDIR="+c.Cache)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return "", "", 0, fmt.Errorf("%s: %w", text, errors.Join(err, ctx.Err()))
	}
	return out.String(), problems.String(), command.ProcessState.ExitCode(), nil
}

// Findings is what csi-local doctor finds. It is an error if its status says otherwise.
func (c Console) Findings(ctx context.Context) ([]doctor.Finding, error) {
	stdout, stderr, code, err := c.Run(ctx, "csi-local doctor -o json")
	if err != nil {
		return nil, err
	}
	var report doctor.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		return nil, fmt.Errorf("status %d: %w\n%s%s", code, err, stdout, stderr)
	}
	if stderr != "" {
		return nil, fmt.Errorf("status %d, and it complains: %s", code, stderr)
	}
	if want := map[bool]int{true: 0, false: 1}[report.Healthy]; code != want || report.Healthy != (len(report.Findings) == 0) {
		return nil, fmt.Errorf("status %d with %d findings, healthy %v", code, len(report.Findings), report.Healthy)
	}
	return report.Findings, nil
}

// Names are the findings' checks and objects.
func Names(found []doctor.Finding) (names []string) {
	for _, f := range found {
		names = append(names, f.Check+" "+f.Object.String())
	}
	return names
}
