package schedplugin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func ptr(f float64) *float64 { return &f }

func TestDecodeArgs(t *testing.T) {
	defaults := &LocalCapacityArgs{DriverNames: []string{"kubernetes.io.csi.local"}, OversellRatio: ptr(1), ScoringStrategy: &ScoringStrategy{Type: Spread}}
	for _, tc := range []struct {
		name, json string
		yaml       bool
		want       *LocalCapacityArgs
		problem    string
	}{
		{name: "nothing", want: defaults},
		{name: "empty", json: `{}`, want: defaults},
		{name: "all", json: `{"apiVersion":"csi-local.io/v1","kind":"LocalCapacityArgs","driverNames":["a.example.com","b.example.com"],"oversellRatio":1.5,
			"pools":[{"name":"pool-ssd","oversellRatio":0.9}],"scoringStrategy":{"type":"Pack","pools":[{"name":"pool-ssd","weight":3},{"name":"pool-hdd"}]}}`,
			want: &LocalCapacityArgs{DriverNames: []string{"a.example.com", "b.example.com"}, OversellRatio: ptr(1.5), Pools: []PoolArgs{{"pool-ssd", ptr(0.9)}},
				ScoringStrategy: &ScoringStrategy{Type: Pack, Pools: []PoolWeight{{"pool-ssd", 3}, {"pool-hdd", 1}}}}},
		{name: "YAML", yaml: true, json: "oversellRatio: 2\n", want: &LocalCapacityArgs{DriverNames: defaults.DriverNames, OversellRatio: ptr(2), ScoringStrategy: defaults.ScoringStrategy}},
		{name: "unknown field", json: `{"oversellRation":1.5}`, problem: `unknown field "oversellRation"`},
		{name: "other case", json: `{"OversellRatio":1.5}`, problem: `unknown field "OversellRatio"`},
		{name: "field twice", json: `{"oversellRatio":1.5,"oversellRatio":1}`, problem: `duplicate field "oversellRatio"`},
		{name: "unknown field in YAML", yaml: true, json: "ratio: 2\n", problem: `unknown field "ratio"`},
		{name: "wrong type", json: `{"oversellRatio":"1"}`, problem: "cannot unmarshal"},
		{name: "other kind", json: `{"kind":"VolumeBindingArgs"}`, problem: `kind: Unsupported value: "VolumeBindingArgs"`},
		{name: "other version", json: `{"apiVersion":"csi-local.io/v2"}`, problem: "apiVersion: Unsupported value"},
		{name: "ratio 0", json: `{"oversellRatio":0}`, problem: "oversellRatio: Invalid value: 0: must be from 0.001 to 1000"},
		{name: "ratio too large", json: `{"oversellRatio":1001}`, problem: "oversellRatio: Invalid value"},
		{name: "ratio too fine", json: `{"oversellRatio":1.0001}`, problem: "at most three decimals"},
		{name: "pool without a ratio", json: `{"pools":[{"name":"a"}]}`, problem: "pools[0].oversellRatio: Required value"},
		{name: "pool twice", json: `{"pools":[{"name":"a","oversellRatio":1},{"name":"a","oversellRatio":2}]}`, problem: `pools[1].name: Duplicate value: "a"`},
		{name: "bad pool name", json: `{"pools":[{"name":"a b","oversellRatio":1}]}`, problem: "pools[0].name: Invalid value"},
		{name: "driver twice", json: `{"driverNames":["a","a"]}`, problem: "driverNames[1]: Duplicate value"},
		{name: "bad driver name", json: `{"driverNames":["A_B"]}`, problem: "driverNames[0]: Invalid value"},
		{name: "long driver name", json: `{"driverNames":["` + strings.Repeat("a", 64) + `"]}`, problem: "driverNames[0]: Too long"},
		{name: "unknown strategy", json: `{"scoringStrategy":{"type":"Random"}}`, problem: "scoringStrategy.type: Unsupported value"},
		{name: "weight too large", json: `{"scoringStrategy":{"pools":[{"name":"a","weight":101}]}}`, problem: "scoringStrategy.pools[0].weight: Invalid value"},
		{name: "all problems at once", json: `{"oversellRatio":0,"driverNames":["A"]}`, problem: "driverNames[0]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			unknown := &runtime.Unknown{ContentType: runtime.ContentTypeJSON}
			if tc.yaml {
				unknown.ContentType = runtime.ContentTypeYAML
			}
			if tc.json != "" {
				unknown.Raw = []byte(tc.json)
			}
			got, err := decodeArgs(unknown)
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("error is %v, want %q in it", err, tc.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got.TypeMeta = tc.want.TypeMeta
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDecodeArgs_OtherObjects(t *testing.T) {
	if _, err := decodeArgs(nil); err != nil {
		t.Errorf("nil: %v", err)
	}
	if _, err := decodeArgs(&v1.Pod{}); err == nil || !strings.Contains(err.Error(), "got *v1.Pod") {
		t.Errorf("a pod: %v", err)
	}
	if _, err := decodeArgs(&runtime.Unknown{Raw: []byte("x"), ContentType: runtime.ContentTypeProtobuf}); err == nil {
		t.Error("protobuf was accepted")
	}
	given := &LocalCapacityArgs{Pools: []PoolArgs{{"a", ptr(2)}}, ScoringStrategy: &ScoringStrategy{Pools: []PoolWeight{{Name: "a"}}}}
	got, err := decodeArgs(given)
	if err != nil {
		t.Fatal(err)
	}
	*got.Pools[0].OversellRatio, got.ScoringStrategy.Pools[0].Weight = 3, 7
	if *given.Pools[0].OversellRatio != 2 || given.ScoringStrategy.Pools[0].Weight != 0 || given.DriverNames != nil {
		t.Errorf("the caller's arguments were changed: %+v", given)
	}
}

func TestRatios_PerPoolAndForAllOthers(t *testing.T) {
	p, _ := started(t, &LocalCapacityArgs{OversellRatio: ptr(1.5), Pools: []PoolArgs{{"pool-ssd", ptr(0.5)}}},
		makeNode("n1", "pool-ssd", 10*gib, "pool-hdd", 10*gib), makeCSINode("n1"))
	l := p.drivers[0].ledger
	if got := l.Pool("n1", "pool-ssd").LimitBytes; got != 5*gib {
		t.Errorf("pool-ssd: limit %d", got)
	}
	if got := l.Pool("n1", "pool-hdd").LimitBytes; got != 15*gib {
		t.Errorf("pool-hdd: limit %d", got)
	}
}
