package incident

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// figures watches what the scheduler says of the pools, in its metrics.
type figures struct {
	mu   sync.Mutex
	open map[*window]bool
}

// window is a time in which a pool's figure must not change.
type window struct {
	figures *figures
	pool    string
	want    int64
	// seen counts the looks at it; wrong is what the first other figure was.
	seen  int
	wrong string
}

// watch holds the pool's bytes, used and reserved, to the figure until the window ends.
func (f *figures) watch(pool string, want int64) *window {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &window{figures: f, pool: pool, want: want}
	f.open[w] = true
	return w
}

// end ends the window once it was looked at often enough.
func (w *window) end(t *testing.T) {
	t.Helper()
	const least = 2
	for start := time.Now(); ; {
		w.figures.mu.Lock()
		enough := w.seen >= least || w.wrong != ""
		if enough || time.Since(start) > patience {
			delete(w.figures.open, w)
			w.figures.mu.Unlock()
			if !enough || w.wrong != "" {
				t.Errorf("pool %s is full, with %d bytes, as long as its volumes are there; seen %d times, %s", w.pool, w.want, w.seen, w.wrong)
			}
			return
		}
		w.figures.mu.Unlock()
		select {
		case <-t.Context().Done():
			return
		case <-time.After(lookEvery):
		}
	}
}

const lookEvery = 250 * time.Millisecond

// follow reads the metrics until the context ends.
func (f *figures) follow(ctx context.Context, client *http.Client, url string) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look(ctx, client, url)
		}
	}
}

// look judges the windows that are open before and after the figures were read.
func (f *figures) look(ctx context.Context, client *http.Client, url string) {
	f.mu.Lock()
	var windows []*window
	for w := range f.open {
		windows = append(windows, w)
	}
	f.mu.Unlock()
	if len(windows) == 0 {
		return
	}
	bytes, err := poolBytes(ctx, client, url)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range windows {
		switch {
		case !f.open[w]:
		case err != nil:
			w.wrong = err.Error()
		default:
			w.seen++
			if bytes[w.pool] != w.want && w.wrong == "" {
				w.wrong = fmt.Sprintf("%d bytes were counted", bytes[w.pool])
			}
		}
	}
}

// poolBytes are the bytes of each pool that are used or reserved.
func poolBytes(ctx context.Context, client *http.Client, url string) (map[string]int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	bytes := map[string]int64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		for _, kind := range []string{"used", "reserved"} {
			begin := fmt.Sprintf(`csi_local_scheduler_pool_bytes{driver=%q,kind=%q,pool="`, capacity.DefaultDriverName, kind)
			rest, ours := strings.CutPrefix(lines.Text(), begin)
			pool, text, ok := strings.Cut(rest, `"} `)
			if !ours || !ok {
				continue
			}
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			bytes[pool] += int64(value)
		}
	}
	return bytes, lines.Err()
}
