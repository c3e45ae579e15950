package reporter

import (
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PaceRetries wraps the transport of a client (Wrap of rest.Config) so that a request
// to an API server that is busy fails at once, with an error that says for how long
// to wait. Of its own accord client-go asks again, up to ten times, after exactly
// that time: attempts that no pacer sees, and that come together as the first ones did.
func PaceRetries(inner http.RoundTripper) http.RoundTripper { return pacedRetries{inner} }

type pacedRetries struct{ inner http.RoundTripper }

// RoundTrip returns a *apierrors.StatusError where client-go would ask again.
func (p pacedRetries) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.inner.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
		return resp, err
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		return resp, nil //nolint:nilerr // without a time to wait client-go does not ask again
	}
	const most = 1 << 10 // of the words with which the server explains itself
	text, _ := io.ReadAll(io.LimitReader(resp.Body, most))
	_ = resp.Body.Close()
	return nil, apierrors.NewGenericServerResponse(resp.StatusCode, r.Method, schema.GroupResource{}, r.URL.Path, string(text), seconds, true)
}
