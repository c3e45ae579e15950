package vm

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	good := hostFacts{udev: true}
	for _, tc := range []struct {
		name   string
		o      Options
		facts  hostFacts
		want   Backend // empty means a MissingError
		reason string
	}{
		{"auto on a good host", Options{Backend: Auto}, good, Host, "device mapper"},
		{"auto without device mapper", Options{Backend: Auto}, hostFacts{problem: "the kernel has no device mapper"}, UML, "on the host, the kernel has no device mapper"},
		{"auto and a power cut", Options{Backend: Auto, PowerCut: true}, good, UML, "power"},
		{"auto and modules", Options{Backend: Auto, Modules: []string{"dm-dust"}}, good, UML, "modules"},
		{"auto with udev", Options{Backend: Auto, Udev: true}, good, Host, ""},
		{"auto with udev that the host lacks", Options{Backend: Auto, Udev: true}, hostFacts{}, UML, "no udevd is running"},
		{"auto and a folder that the host lacks", Options{Backend: Auto}, hostFacts{missing: []string{"/results"}}, UML, "no folder /results"},
		{"uml as asked", Options{Backend: UML}, good, UML, "as asked"},
		{"host as asked", Options{Backend: Host}, good, Host, "as asked"},
		{"host that cannot be had", Options{Backend: Host}, hostFacts{problem: "this user is not root"}, "", "this user is not root"},
		{"host with udev that it lacks", Options{Backend: Host, Udev: true}, hostFacts{}, "", "no udevd is running"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := choose(tc.o, func() hostFacts { return tc.facts })
			if got.backend != tc.want {
				t.Fatalf("chose %q, %v; want %q", got.backend, err, tc.want)
			}
			var missing *MissingError
			if (tc.want == "") != errors.As(err, &missing) {
				t.Fatalf("error %v", err)
			}
			told := got.reason
			if err != nil {
				told = err.Error()
			}
			if !strings.Contains(told, tc.reason) {
				t.Errorf("told %q, want %q in it", told, tc.reason)
			}
		})
	}
}

func TestMissingTargets(t *testing.T) {
	const listed = "crypt            v1.24.0\nraid             v1.15.1\nthin-pool        v1.22.0\nthin  v1.22.0\n" +
		"snapshot         v1.16.0\nstriped          v1.6.0\nlinear           v1.4.0\nerror            v1.5.0\n"
	for _, tc := range []struct {
		listed string
		want   []string
	}{
		{listed, nil},
		{strings.ReplaceAll(listed, "thin-pool", "thinpool"), []string{"thin-pool"}},
		{"No targets found\n", neededTargets},
		{"", neededTargets},
	} {
		if got := missingTargets(tc.listed); !slices.Equal(got, tc.want) {
			t.Errorf("missingTargets(%q) = %q, want %q", tc.listed, got, tc.want)
		}
	}
}
