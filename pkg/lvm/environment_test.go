package lvm

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The words of LVM's messages are those that classify.go knows, whatever language
// and settings this process was started with.
func TestEnvironment_IsOurOwn(t *testing.T) {
	for _, name := range []string{"LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LVM_SYSTEM_DIR", "LVM_VG_NAME"} {
		t.Setenv(name, "de_DE.UTF-8")
	}
	cmd := exec.CommandContext(t.Context(), "lvm")
	environment{systemDir: "/run/x"}.prepare(cmd, nil, nil)
	for _, want := range []string{"LC_ALL=C", "LVM_SYSTEM_DIR=/run/x", "DM_DISABLE_UDEV=1"} {
		if !slices.Contains(cmd.Env, want) {
			t.Errorf("%s is not in %q", want, cmd.Env)
		}
	}
	if all := strings.Join(cmd.Env, " "); strings.Contains(all, "de_DE") {
		t.Errorf("inherited: %q", cmd.Env)
	}
	environment{udev: true}.prepare(cmd, nil, nil)
	if slices.Contains(cmd.Env, "DM_DISABLE_UDEV=1") {
		t.Errorf("udevd is to be waited for: %q", cmd.Env)
	}
}
