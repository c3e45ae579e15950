package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/csi-local/csi-local/test/testbed"
)

// writer writes numbers, one after the other, and none before the last is on the disk.
const writer = `i=$(tail -n 1 /data/log 2>/dev/null || echo 0); while i=$((i+1)); do echo $i >> /data/log && sync && sleep 0.05 || exit 1; done`

// written is how many numbers a writer has written; that none is missing is looked at.
func (b bed) written(ctx context.Context, pod string) (int, error) {
	out, err := b.exec(ctx, pod, "wc -l < /data/log; tail -n 1 /data/log")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(out)
	if len(fields) != 2 || fields[0] != fields[1] {
		return 0, fmt.Errorf("lines and last number are %v", fields)
	}
	return strconv.Atoi(fields[0])
}

// wantProgress waits until a writer has written more than it had, and returns how much.
func (b bed) wantProgress(t *testing.T, pod string, before int) (now int) {
	t.Helper()
	testbed.Eventually(t, patience, pod+" writes on", func() string {
		var err error
		if now, err = b.written(t.Context(), pod); err != nil || now <= before {
			return fmt.Sprintf("%d numbers, error %v", now, err)
		}
		return ""
	})
	return now
}

// testExpansion grows a volume under a writer; then it asks for more than there is, and
// takes that back.
func testExpansion(t *testing.T, b bed) {
	b.apply(t, claim("data", class, 128*mib), pod("writer", writer, map[string]string{"data": ofClaim("data")}))
	b.wantReady(t, "writer")
	count := b.wantProgress(t, "writer", 0)

	b.resize(t, "data", 512*mib)
	b.wantCapacity(t, "data", 512*mib)
	if kib, err := strconv.Atoi(b.mustExec(t, "writer", "df -Pk /data | tail -n 1 | awk '{print $2}'")); err != nil || int64(kib)<<10 < 400*mib {
		t.Errorf("the file system has %d KiB, error %v", kib, err)
	}
	count = b.wantProgress(t, "writer", count)

	beyond := b.published(t, b.nodeOf(t, "writer")) + extent
	b.resize(t, "data", beyond)
	b.wantEvent(t, "writer", "VolumeResizeFailed", pool, "at most")
	count = b.wantProgress(t, "writer", count)
	b.resize(t, "data", 640*mib)
	b.wantCapacity(t, "data", 640*mib)
	b.wantProgress(t, "writer", count)
	if restarts := b.kubectl(t, "get", "pod", "writer", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("the writer was restarted %s times", restarts)
	}
}

func (b bed) resize(t *testing.T, claim string, bytes int64) {
	t.Helper()
	b.kubectl(t, "patch", "persistentvolumeclaim", claim, "--patch", fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":"%d"}}}}`, bytes))
}

// wantCapacity waits until a claim has its size, in the node's file system too.
func (b bed) wantCapacity(t *testing.T, claim string, bytes int64) {
	t.Helper()
	testbed.Eventually(t, patience, "size of claim "+claim, func() string {
		got := b.kubectl(t, "get", "persistentvolumeclaim", claim, "-o", "jsonpath={.status.capacity.storage}")
		if got == strconv.FormatInt(bytes, 10) || got == fmt.Sprintf("%dMi", bytes/mib) {
			return ""
		}
		return got + "\n" + strings.Join(b.events(t, claim), "\n")
	})
}
