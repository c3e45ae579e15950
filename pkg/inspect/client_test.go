package inspect

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// The clock is the API server's, whatever the one here says.
func TestClient_TellsTheTimeOfTheAPIServer(t *testing.T) {
	for _, ahead := range []time.Duration{0, -3 * time.Hour, 24 * time.Hour} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"gitVersion":"v1.37.2"}`)) // the test sees what comes
		}))
		t.Cleanup(server.Close)
		c, err := NewClient(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		version, err := c.ServerVersion(t.Context())
		if off := time.Until(c.Now()) - ahead; err != nil || version != "v1.37.2" || off.Abs() > 2*time.Second {
			t.Errorf("version %s, clock off by %v, %v", version, off, err)
		}
	}
}

func TestClient_UnknownKinds(t *testing.T) {
	if _, err := (Client{}).List(t.Context(), Leases, "", metav1.ListOptions{}); err == nil {
		t.Error("Leases are listed")
	}
	if _, err := (Client{}).Get(t.Context(), Nodes, "", "n"); err == nil {
		t.Error("one Node is read")
	}
}
