package poolconfig

import (
	"context"
	"crypto/sha256"
	"time"
)

// DefaultInterval is how often [Watch] looks at the file.
const DefaultInterval = 5 * time.Second

// WatchOptions say what to watch and whom to tell.
type WatchOptions struct {
	Path string
	// Current is what is in use when the watch begins.
	Current Config
	// Interval is the time between two looks; 0 means DefaultInterval.
	Interval time.Duration
	// Reload asks for a look at once; SIGHUP is forwarded here. May be nil.
	Reload <-chan struct{}
	// OnChange gets each new valid file. It is called from the goroutine of
	// Watch, never twice at once.
	OnChange func(Config)
	// OnError gets the error of each new bad file once, and again on each
	// Reload; what was valid before stays in use.
	OnError func(error)
}

// Watch looks at the file until ctx ends, which is not an error.
//
// It reads the file instead of waiting for file events: a ConfigMap changes by
// the exchange of a link two folders up, editors rename, network file systems
// tell nothing, and a small file each few seconds costs nothing.
func Watch(ctx context.Context, o WatchOptions) {
	interval := o.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	w := watch{WatchOptions: o}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look(false)
		case <-o.Reload:
			w.look(true)
		}
	}
}

type watch struct {
	WatchOptions
	// complaint is the last error told, with the digest of the bytes it is about.
	complaint string
	bad       [sha256.Size]byte
}

// look reads the file once. asked repeats an error that was told before.
func (w *watch) look(asked bool) {
	data, err := read(w.Path)
	if err != nil {
		w.complain(err, [sha256.Size]byte{}, asked)
		return
	}
	digest := sha256.Sum256(data)
	if digest == w.Current.digest {
		w.complaint = ""
		return
	}
	if digest == w.bad && w.complaint != "" && !asked {
		return
	}
	config, err := parseFile(w.Path, data)
	if err != nil {
		w.complain(err, digest, asked)
		return
	}
	w.Current, w.complaint = config, ""
	w.OnChange(config)
}

func (w *watch) complain(err error, digest [sha256.Size]byte, asked bool) {
	if err.Error() != w.complaint || asked {
		w.OnError(err)
	}
	w.complaint, w.bad = err.Error(), digest
}
