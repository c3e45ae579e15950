package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// testUpgrade rolls all parts to another revision and back while volumes are made and
// deleted and one is written to: no creation fails, and the writer notices nothing.
func testUpgrade(t *testing.T, b bed) {
	b.apply(t, claim("data", class, 64*mib), pod("writer", writer, map[string]string{"data": ofClaim("data")}))
	b.wantReady(t, "writer")
	count := b.wantProgress(t, "writer", 0)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	made := make([]int, 2)
	for i := range made {
		load.Go(func() { made[i] = b.load().Work(ctx, fmt.Sprintf("w%d", i)) })
	}
	parts := []string{"daemonset/csi-local-node", "deployment/csi-local-scheduler", "deployment/csi-local-controller"}
	for _, part := range parts {
		b.system(t, "patch", part, "--patch", `{"spec":{"template":{"metadata":{"annotations":{"e2e":"next"}}}}}`)
		b.wantRolledOut(t, part)
	}
	count = b.wantProgress(t, "writer", count)
	for _, part := range parts {
		b.system(t, "rollout", "undo", part)
		b.wantRolledOut(t, part)
	}
	b.wantProgress(t, "writer", count)
	stop()
	load.Wait()
	t.Logf("volumes used meanwhile: %v", made)
	b.wantNoFailedCreate(t)
	if restarts := b.kubectl(t, "get", "pod", "writer", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("the writer was restarted %s times", restarts)
	}
}
