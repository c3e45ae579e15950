package schedplugin

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/kube-scheduler/framework"
)

// Factory makes the plugin for one profile; it is what kube-scheduler's
// app.WithPlugin takes.
type Factory = func(ctx context.Context, args runtime.Object, handle framework.Handle) (framework.Plugin, error)

// NewFactory returns the plugin's factory. All profiles of a scheduler that are
// made by one factory share their books, one ledger for each driver. Background
// work ends with the context that the first profile was made with.
func NewFactory() Factory {
	f := &factory{sets: map[informers.SharedInformerFactory]*shared{}}
	return f.make
}

type factory struct {
	// mu protects sets. There is one for each scheduler, known by its informers.
	mu   sync.Mutex
	sets map[informers.SharedInformerFactory]*shared
}

func (f *factory) make(ctx context.Context, object runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	args, err := decodeArgs(object)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	set, ok := f.sets[handle.SharedInformerFactory()]
	if !ok {
		if set, err = newShared(ctx, handle); err != nil {
			return nil, err
		}
		f.sets[handle.SharedInformerFactory()] = set
	}
	p := &LocalCapacity{shared: set, handle: handle, strategy: args.ScoringStrategy.Type, weights: args.weights()}
	for _, driver := range args.DriverNames {
		books, err := set.join(ctx, driver, args.ratios())
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", handle.ProfileName(), err)
		}
		p.drivers = append(p.drivers, books)
	}
	return p, nil
}
