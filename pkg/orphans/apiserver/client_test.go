package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/csi-local/csi-local/pkg/orphans"
)

const (
	volumePath = "/api/v1/persistentvolumes/pvc-1"
	nodePath   = "/api/v1/nodes/n1"
)

// reply is what a server, or something in its place, answers.
type reply struct {
	code int
	kind string // content type; application/json if empty
	body string
}

// clientOf is the client of a server that answers always the same, and the last
// request that it got.
func clientOf(t *testing.T, r reply) (Client, *http.Request) {
	t.Helper()
	last := &http.Request{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, got *http.Request) {
		*last = *got
		if r.kind == "" {
			r.kind = "application/json"
		}
		w.Header().Set("Content-Type", r.kind)
		w.WriteHeader(r.code)
		if _, err := w.Write([]byte(r.body)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return Client{Kubernetes: client, NodeName: "n1"}, last
}

func status(reason, details string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":404,"details":%s}`, reason, details)
}

const (
	found = `{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"pvc-1"},"spec":{"csi":{"driver":"d","volumeHandle":"vg/pvc-1"}}}`
	other = `{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"pvc-1"},"spec":{"hostPath":{"path":"/x"}}}`
)

// Only a word of the API server about this very object counts as "it is not there".
func TestPersistentVolume_BelievesOnlyTheAPIServer(t *testing.T) {
	nothing := orphans.Answer{}
	for _, tt := range []struct {
		name  string
		reply reply
		want  orphans.Answer
		ok    bool
	}{
		{"found", reply{200, "", found}, orphans.Answer{Found: true, Driver: "d", Handle: "vg/pvc-1"}, true},
		{"no CSI volume", reply{200, "", other}, orphans.Answer{Found: true}, true},
		{"not found", reply{404, "", status("NotFound", `{"name":"pvc-1","kind":"persistentvolumes"}`)}, nothing, true},
		{"another object not found", reply{404, "", status("NotFound", `{"name":"pvc-2","kind":"persistentvolumes"}`)}, nothing, false},
		{"another kind not found", reply{404, "", status("NotFound", `{"name":"pvc-1","kind":"persistentvolumeclaims"}`)}, nothing, false},
		{"another group's kind", reply{404, "", status("NotFound", `{"name":"pvc-1","kind":"persistentvolumes","group":"x.example"}`)}, nothing, false},
		{"no such resource", reply{404, "", status("NotFound", `{}`)}, nothing, false},
		{"no details", reply{404, "", status("NotFound", `null`)}, nothing, false},
		{"another reason", reply{404, "", status("Gone", `{"name":"pvc-1","kind":"persistentvolumes"}`)}, nothing, false},
		{"a proxy's page", reply{404, "text/html", "<html>not found</html>"}, nothing, false},
		{"a mux's answer", reply{404, "text/plain", "404 page not found"}, nothing, false},
		{"an empty answer", reply{404, "", ""}, nothing, false},
		{"an empty object", reply{200, "", "{}"}, nothing, false},
		{"another object", reply{200, "", `{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"pvc-2"}}`}, nothing, false},
		{"forbidden", reply{403, "", status("Forbidden", `{"name":"pvc-1","kind":"persistentvolumes"}`)}, nothing, false},
		{"unauthorized", reply{401, "", ""}, nothing, false},
		{"gone", reply{410, "", status("Expired", `{}`)}, nothing, false},
		{"broken", reply{500, "", ""}, nothing, false},
		{"a page with success", reply{200, "text/html", "<html>log in</html>"}, nothing, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, _ := clientOf(t, tt.reply)
			got, err := client.PersistentVolume(t.Context(), "pvc-1", false)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("answer %+v, %v; want %+v, known %v", got, err, tt.want, tt.ok)
			}
		})
	}
}

func TestPersistentVolume_CacheOrNewest(t *testing.T) {
	for cached, query := range map[bool]string{true: "resourceVersion=0", false: ""} {
		client, last := clientOf(t, reply{200, "", found})
		if _, err := client.PersistentVolume(t.Context(), "pvc-1", cached); err != nil {
			t.Fatal(err)
		}
		if last.URL.Path != volumePath || last.URL.RawQuery != query {
			t.Errorf("cached %v: asked for %s", cached, last.URL)
		}
	}
}

func TestPersistentVolume_NoServer(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	client := Client{Kubernetes: kube, NodeName: "n1"}
	if got, err := client.PersistentVolume(t.Context(), "pvc-1", false); err == nil {
		t.Errorf("answer %+v", got)
	}
	if uid, err := client.NodeUID(t.Context()); err == nil || errors.Is(err, orphans.ErrNoNode) {
		t.Errorf("UID %q, %v", uid, err)
	}
}

func TestNodeUID(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply reply
		want  string
		gone  bool
	}{
		{"found", reply{200, "", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"u"}}`}, "u", false},
		{"not found", reply{404, "", status("NotFound", `{"name":"n1","kind":"nodes"}`)}, "", true},
		{"a mux's answer", reply{404, "text/plain", "404 page not found"}, "", false},
		{"no UID", reply{200, "", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}`}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, last := clientOf(t, tt.reply)
			uid, err := client.NodeUID(t.Context())
			if uid != tt.want || errors.Is(err, orphans.ErrNoNode) != tt.gone || (err == nil) != (tt.want != "") {
				t.Errorf("UID %q, %v", uid, err)
			}
			if last.URL.Path != nodePath || last.URL.RawQuery != "" {
				t.Errorf("asked for %s", last.URL)
			}
		})
	}
}
