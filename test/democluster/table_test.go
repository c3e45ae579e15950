package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShorten(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{
			"two tables, one long",
			`NAME          READY   STATUS    AGE
pod/storm-0   1/1     Running   9s
pod/storm-1   1/1     Running   9s
pod/storm-2   1/1     Running   10s
pod/storm-3   1/1     Running   10s
pod/storm-4   1/1     Running   10s
pod/storm-5   1/1     Running   10s

NAME        STATUS   VOLUME                                     ACCESS MODES   AGE
pvc/storm   Bound    pvc-0f6b1a1e-0c51-4a1b-9d7c-0d5a5b1f7c11   RWO            9s
pvc/more    Pending                                                            1s
`,
			[]string{
				"NAME         STATUS   AGE", "pod/storm-0  Running  9s", "pod/storm-1  Running  9s", "pod/storm-2  Running  10s", "pod/storm-3  Running  10s", "… and 2 more", "",
				"NAME       STATUS   VOLUME         AGE", "pvc/storm  Bound    pvc-0f6b1a1e…  9s", "pvc/more   Pending                 1s",
			},
		},
		{"no table", "deployed\n  as it is", []string{"deployed", "  as it is"}},
		{"a long line", strings.Repeat("x", outputWidth+1), []string{strings.Repeat("x", outputWidth-1) + "…"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, shorten(tc.text)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTyped(t *testing.T) {
	got := typed([]string{"get", "-o", `custom-columns=N:.spec.drivers[*].name`, "--set-json", `pools=[{"name":"a"}]`})
	if want := `get -o 'custom-columns=N:.spec.drivers[*].name' --set-json 'pools=[{"name":"a"}]'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
