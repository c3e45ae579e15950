package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestCheckEnabled(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	const on = "multiPoint: {enabled: [{name: LocalCapacity}]}"
	tests := []struct {
		name, profiles string
		want           string // "": accepted
	}{
		{"no profile", "", "is off"},
		{"in-tree plugins only", "profiles: [{schedulerName: a}]", "is off"},
		{"on", "profiles: [{schedulerName: a, plugins: {" + on + "}}]", ""},
		{"on in the second profile", "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {" + on + "}}]", ""},
		{"filter alone", "profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: LocalCapacity}]}}}]", "is off"},
		{"reserve disabled", "profiles: [{schedulerName: a, plugins: {" + on + ", reserve: {disabled: [{name: LocalCapacity}]}}}]",
			"profile a: plugins.reserve.disabled"},
		{"all of filter disabled", "profiles: [{schedulerName: a, plugins: {" + on + `, filter: {disabled: [{name: "*"}]}}}]`,
			"profile a: plugins.filter.disabled"},
		{"all of filter disabled but this", "profiles: [{schedulerName: a, plugins: {" + on +
			`, filter: {disabled: [{name: "*"}], enabled: [{name: LocalCapacity}]}}}]`, ""},
		{"score disabled", "profiles: [{schedulerName: a, plugins: {" + on + ", score: {disabled: [{name: LocalCapacity}]}}}]", ""},
		{"not a configuration", "profiles: 7", "--config: "},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := checkEnabled(klog.Background(), write(t, "config.yaml", head+tc.profiles))
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantError(t, err, tc.want)
		})
	}
}

func TestCommand_RefusesToRunWithoutConfiguration(t *testing.T) {
	command := newCommand()
	command.SetArgs(nil)
	command.SilenceErrors, command.SilenceUsage = true, true
	wantError(t, command.ExecuteContext(t.Context()), "--config is required")
}

func TestCommand_Help(t *testing.T) {
	command := newCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"--help"})
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"csi-local-scheduler [flags]", "LocalCapacity", "--config string", "--leader-elect", "--logging-format", "--authentication-kubeconfig"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q", want)
		}
	}
}
