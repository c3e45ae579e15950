package reporter

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A server that is busy is asked once, and its wish to be left alone for a while
// reaches the pacer.
func TestPaceRetries(t *testing.T) {
	for name, c := range map[string]struct {
		code       int
		retryAfter string
		result     string
		delay      int
	}{
		"throttled":             {429, "7", "throttled", 7},
		"throttled, no time":    {429, "", "throttled", 0},
		"throttled until a day": {429, "Fri, 31 Dec 1999 23:59:59 GMT", "throttled", 0},
		"starting":              {503, "3", "error", 3},
		"broken":                {500, "", "error", 0},
		"refused":               {403, "9", "forbidden", 9},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Retry-After", c.retryAfter)
				http.Error(w, "not now", c.code)
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL}
			config.Wrap(PaceRetries)
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Client{Kubernetes: client, NodeName: testNode, DriverName: testDriver}.Get(t.Context(), KindNode)
			if asked := asked.Load(); asked != 1 {
				t.Errorf("asked %d times, want once: the caller's pace decides when to ask again", asked)
			}
			if delay, _ := apierrors.SuggestsClientDelay(err); result(err) != c.result || delay != c.delay {
				t.Errorf("result %s, want %s; delay %d s, want %d: %v", result(err), c.result, delay, c.delay, err)
			}
		})
	}
}
