package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// nextTag is that of another version, as far as Kubernetes is concerned.
const nextTag = ":v0.1.1"

// testUpgrade rolls all parts to another image and back while volumes are made and deleted
// and one is written to: no creation fails, the writer notices nothing, and what the nodes
// publish stays.
func testUpgrade(t *testing.T, b bed) {
	b.apply(t, claim("data", class, 64*mib), pod("writer", writer, map[string]string{"data": ofClaim("data")}))
	b.wantReady(t, "writer")
	count := b.wantProgress(t, "writer", 0)
	reports := b.reports(t)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	made := make([]int, 2)
	for i := range made {
		load.Go(func() { made[i] = b.load().Work(ctx, fmt.Sprintf("w%d", i)) })
	}
	parts := []string{"daemonset/csi-local-node", "deployment/csi-local-scheduler", "deployment/csi-local-controller"}
	for i, container := range []string{"csi-local", scheduler, "csi-local"} {
		b.system(t, "set", "image", parts[i], container+"="+b.nextImage(t, parts[i], container))
		b.wantRolledOut(t, parts[i])
	}
	count = b.wantProgress(t, "writer", count)
	// And back all at once, as helm does.
	for _, part := range parts {
		b.system(t, "rollout", "undo", part)
	}
	b.wantRolledOut(t, parts...)
	b.wantProgress(t, "writer", count)
	stop()
	load.Wait()
	t.Logf("volumes used meanwhile: %v", made)
	b.wantNoFailedCreate(t)
	if now := b.reports(t); now != reports {
		t.Errorf("the nodes published\n%s\nand now\n%s", reports, now)
	}
	if restarts := b.kubectl(t, "get", "pod", "writer", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("the writer was restarted %s times", restarts)
	}
}

// nextImage gives the image of a part's container another tag on all nodes.
func (b bed) nextImage(t *testing.T, part, container string) (next string) {
	t.Helper()
	image := b.Must(t, "-n", "kube-system", "get", part, "-o", fmt.Sprintf(`jsonpath={.spec.template.spec.containers[?(@.name==%q)].image}`, container))
	next = image[:strings.LastIndex(image, ":")] + nextTag
	for _, n := range b.Nodes() {
		n.MustRun(t, "ctr", "--namespace", "k8s.io", "images", "tag", "--force", image, next)
	}
	return next
}

// reports are what the nodes publish, and who wrote that when.
func (b bed) reports(t *testing.T) string {
	t.Helper()
	return b.Must(t, "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} `+
		`{.metadata.annotations.csi\.volume\.kubernetes\.io/kubernetes\.io\.csi\.local} {.metadata.annotations.kubernetes\.io\.csi\.local/capacity-report}{"\n"}{end}`)
}
