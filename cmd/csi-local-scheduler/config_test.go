package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/yaml"

	"github.com/csi-local/csi-local/pkg/schedplugin"
)

// shipped is where the configurations are that users start from.
const shipped = "../../deploy/scheduler"

// setup goes the whole way of kube-scheduler from the command line to a scheduler
// that could start: strict decoding, defaults, validation, profiles, plugins. It
// asks no API server.
func setup(t *testing.T, file string) (*scheduler.Scheduler, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	opts := options.NewOptions()
	// Port 0: no serving, which would ask the API server who may read.
	arguments := []string{"--config=" + file, "--master=https://127.0.0.1:1", "--secure-port=0"}
	flags := (&flag.NamedFlagSets{}).FlagSet("all")
	for _, set := range opts.Flags.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	_, s, err := app.Setup(ctx, opts, app.WithPlugin(schedplugin.Name, schedplugin.NewFactory()))
	return s, err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestShippedConfiguration(t *testing.T) {
	tests := []struct {
		file, scheduler, lease string
	}{
		{"config.yaml", "csi-local-scheduler", "csi-local-scheduler"},
		{"config-replace.yaml", "default-scheduler", "kube-scheduler"},
	}
	for _, tc := range tests {
		t.Run(tc.file, func(t *testing.T) {
			file := filepath.Join(shipped, tc.file)
			s, err := setup(t, file)
			if err != nil {
				t.Fatalf("kube-scheduler refuses it: %v", err)
			}
			if err := checkEnabled(klog.Background(), file); err != nil {
				t.Errorf("we refuse it: %v", err)
			}
			fwk, ok := s.Profiles[tc.scheduler]
			if !ok || len(s.Profiles) != 1 {
				t.Fatalf("want one profile, %s; got %v", tc.scheduler, s.Profiles)
			}
			checkPoints(t, fwk.ListPlugins())
			cfg, err := options.LoadConfigFromFile(klog.Background(), file)
			if err != nil {
				t.Fatal(err)
			}
			if le := cfg.LeaderElection; !le.LeaderElect || le.ResourceName != tc.lease || le.ResourceNamespace != "kube-system" {
				t.Errorf("leader election: got %+v, want lease kube-system/%s", le, tc.lease)
			}
		})
	}
}

// checkPoints holds the plugin to be on wherever it has something to do, and the
// one that binds the claims to be still there.
func checkPoints(t *testing.T, plugins *config.Plugins) {
	t.Helper()
	sets := map[string]config.PluginSet{
		"preFilter": plugins.PreFilter, "filter": plugins.Filter, "postFilter": plugins.PostFilter, "preScore": plugins.PreScore,
		"score": plugins.Score, "reserve": plugins.Reserve, "permit": plugins.Permit, "postBind": plugins.PostBind,
	}
	for point, set := range sets {
		if !listed(set.Enabled, schedplugin.Name) {
			t.Errorf("the plugin is off at %s: %v", point, set.Enabled)
		}
	}
	for point, set := range map[string]config.PluginSet{"filter": plugins.Filter, "reserve": plugins.Reserve, "preBind": plugins.PreBind} {
		if !listed(set.Enabled, "VolumeBinding") {
			t.Errorf("VolumeBinding is off at %s: %v", point, set.Enabled)
		}
	}
}

// What the chart's values say is what the plugin does without them.
func TestShippedArgumentsAreTheDefaults(t *testing.T) {
	for _, name := range []string{"config.yaml", "config-replace.yaml"} {
		var doc struct {
			Profiles []struct {
				PluginConfig []struct {
					Args schedplugin.LocalCapacityArgs `json:"args"`
				} `json:"pluginConfig"`
			} `json:"profiles"`
		}
		text, err := os.ReadFile(filepath.Join(shipped, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		got := doc.Profiles[0].PluginConfig[0].Args
		want := schedplugin.LocalCapacityArgs{}
		want.SetDefaults()
		if !slices.Equal(got.DriverNames, want.DriverNames) || *got.OversellRatio != *want.OversellRatio || got.ScoringStrategy.Type != want.ScoringStrategy.Type {
			t.Errorf("%s: got %+v, want the defaults %+v", name, got, want)
		}
	}
}

func TestWrongConfigurationSaysWhatIsWrong(t *testing.T) {
	tests := []struct {
		name string
		// from is replaced by to in config.yaml.
		from, to string
		want     []string
	}{
		{"misspelt argument", "oversellRatio: 1.0\n", "oversellRation: 1.0\n",
			[]string{"LocalCapacity", `unknown field "oversellRation"`}},
		{"ratio out of range", "oversellRatio: 1.0\n", "oversellRatio: -1\n",
			[]string{"LocalCapacity", "oversellRatio", "must be from 0.001 to 1000"}},
		{"ratio that is no number", "oversellRatio: 1.0\n", "oversellRatio: much\n",
			[]string{"LocalCapacity", "oversellRatio"}},
		{"unknown strategy", "type: Spread", "type: Sprea", []string{"LocalCapacity", "scoringStrategy.type", "Sprea", "Pack", "Spread"}},
		{"driver name", "[kubernetes.io.csi.local]", "[Not_A_Driver]", []string{"LocalCapacity", "driverNames[0]", "Not_A_Driver"}},
		{"driver twice", "[kubernetes.io.csi.local]", "[a.example, a.example]", []string{"driverNames[1]", "Duplicate"}},
		{"later version of the arguments", "args:\n", "args:\n      apiVersion: csi-local.io/v9\n      kind: LocalCapacityArgs\n",
			[]string{"apiVersion", "csi-local.io/v9", "csi-local.io/v1"}},
		{"misspelt plugin", "- name: LocalCapacity\n        # Of", "- name: LocalCapacitee\n        # Of", []string{"LocalCapacitee"}},
		{"misspelt field of the scheduler's own", "leaderElect: true", "leaderElects: true", []string{`unknown field "leaderElection.leaderElects"`}},
	}
	text, err := os.ReadFile(filepath.Join(shipped, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			changed := strings.Replace(string(text), tc.from, tc.to, 1)
			if changed == string(text) {
				t.Fatalf("config.yaml does not contain %q any more", tc.from)
			}
			_, err := setup(t, write(t, "config.yaml", changed))
			wantError(t, err, tc.want...)
		})
	}
}

func TestVersionedArgumentsAreAccepted(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(shipped, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	versioned := strings.Replace(string(text), "args:\n",
		"args:\n      apiVersion: "+schedplugin.ArgsAPIVersion+"\n      kind: "+schedplugin.ArgsKind+"\n", 1)
	if _, err := setup(t, write(t, "config.yaml", versioned)); err != nil {
		t.Fatal(err)
	}
}

func TestProfilesShareBooksAndMustAgree(t *testing.T) {
	const profile = `
  - schedulerName: %NAME
    plugins: {multiPoint: {enabled: [{name: LocalCapacity}]}}
    pluginConfig: [{name: LocalCapacity, args: {oversellRatio: %RATIO}}]`
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:"
	file := func(ratios ...string) string {
		text := head
		for i, ratio := range ratios {
			text += strings.NewReplacer("%NAME", "s"+string(rune('0'+i)), "%RATIO", ratio).Replace(profile)
		}
		return write(t, "config.yaml", text)
	}
	if s, err := setup(t, file("1.0", "1")); err != nil || len(s.Profiles) != 2 {
		t.Errorf("two profiles with the same ratio: %v", err)
	}
	_, err := setup(t, file("1.0", "2.0"))
	wantError(t, err, "profile s1", "kubernetes.io.csi.local", "oversellRatio differs")
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}
