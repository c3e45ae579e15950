package reporter

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/klog/v2"
)

// mutability is how far a version of Kubernetes can change the volume count of a
// CSINode (KEP-4876, feature gate MutableCSINodeAllocatableCount).
type mutability int

const (
	// unknown: the version cannot be read.
	unknown mutability = iota
	// never: before 1.33, where the gate came.
	never
	// gated: 1.33 and 1.34, where the gate is off unless an administrator turns it on.
	gated
	// usual: on by default since 1.35, for good since 1.36.
	usual
)

// parseVersion reads v1.37.2 and what vendors make of it. Programs that were built
// without a version call themselves v0.0.0: that is none.
func parseVersion(text string) (v *version.Version, ok bool) {
	v, err := version.ParseGeneric(text)
	return v, err == nil && v.Major() > 0
}

func mutabilityOf(text string) mutability {
	v, ok := parseVersion(text)
	switch {
	case !ok:
		return unknown
	case !v.AtLeast(version.MajorMinor(1, 33)):
		return never
	case !v.AtLeast(version.MajorMinor(1, 35)):
		return gated
	default:
		return usual
	}
}

// support is what the versions of the API server and of kubelet let this node do.
type support struct {
	apiServer, kubelet string
}

// fixedCount tells that the API server does not let anybody change the count.
func (s support) fixedCount() bool { return mutabilityOf(s.apiServer) == never }

// String says what is done with these versions and what is not, for people.
func (s support) String() string {
	text := fmt.Sprintf("API server %s, kubelet %s: the bytes of the pools are published on the Node; ",
		orUnknown(s.apiServer), orUnknown(s.kubelet))
	const gate = "the feature gate MutableCSINodeAllocatableCount"
	switch mutabilityOf(s.apiServer) {
	case never:
		text += "the CSINode's volume count stays what it was at registration, since it cannot be changed before Kubernetes 1.33"
	case gated:
		text += "the CSINode's volume count is changed if the API server has " + gate
	case usual:
		text += "the CSINode's volume count is kept up to date"
	case unknown:
		text += "the CSINode's volume count is changed if the API server lets it"
	}
	if !s.fixedCount() {
		text += map[mutability]string{
			never:   "; kubelet does not refresh it",
			gated:   "; kubelet refreshes it too if it has " + gate,
			usual:   "; kubelet refreshes it too",
			unknown: "; whether kubelet refreshes it is not known",
		}[mutabilityOf(s.kubelet)]
	}
	if s.skewed() {
		text += "; this kubelet is newer than the API server, which Kubernetes does not support"
	}
	return text
}

// skewed tells of a kubelet that is newer than the API server (Kubernetes' version skew policy).
func (s support) skewed() bool {
	apiServer, ok := parseVersion(s.apiServer)
	kubelet, known := parseVersion(s.kubelet)
	return ok && known && version.MajorMinor(apiServer.Major(), apiServer.Minor()).LessThan(version.MajorMinor(kubelet.Major(), kubelet.Minor()))
}

func orUnknown(text string) string {
	if text == "" {
		return "of unknown version"
	}
	return text
}

// versionAgain is how often the API server is asked for its version: it may be
// upgraded beneath a node that runs on.
const versionAgain = time.Hour

// askVersion learns the API server's version. It has its own goroutine, because
// nothing waits for it.
func (r *Reporter) askVersion(ctx context.Context) {
	pacer := newPacer(r.opts.Settings, r.random)
	for {
		text, err := r.serverVersion(ctx)
		wait := versionAgain
		if final := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err); err == nil || final {
			pacer.succeeded()
			r.mu.Lock()
			r.apiServer, r.apiServerKnown = text, true
			r.mu.Unlock()
			r.wake()
		} else {
			now := r.clock.Now()
			pacer.failed(now, 0)
			wait = pacer.blocked(now)
			klog.FromContext(ctx).V(2).Info("The API server's version is not known yet; asking again", "wait", wait, "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(wait):
		}
	}
}

func (r *Reporter) serverVersion(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Settings.RequestTimeout)
	defer cancel()
	return r.opts.ServerVersion(ctx)
}

// tellSupport says what is done and what is not, once both versions are known and
// whenever one of them has changed.
func (r *Reporter) tellSupport(ctx context.Context) {
	r.mu.Lock()
	s, known := support{apiServer: r.apiServer, kubelet: r.node.known.KubeletVersion}, r.apiServerKnown
	r.mu.Unlock()
	if !known || !r.node.loaded || !r.node.known.Found || r.told && s == r.support {
		return
	}
	r.support, r.told = s, true
	klog.FromContext(ctx).Info("What is published with these versions of Kubernetes", "apiServer", s.apiServer, "kubelet", s.kubelet, "summary", s.String())
	r.notices.tell(Notice{Reason: "CapacitySupport", Message: s.String()})
}
