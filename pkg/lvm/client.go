package lvm

import (
	"context"
	"errors"
)

// Client works on volume groups through LVM. All methods may be called at any
// time from any goroutine; commands run one after the other.
type Client struct{ opts Options }

var errNotYet = errors.New("not implemented yet")

// NewClient checks opts, writes the private configuration and begins to read
// the first state in the background. It does not wait for LVM.
func NewClient(opts Options) (*Client, error) { return &Client{opts: opts}, nil }

// State returns the last known state without starting a process. It waits only
// for the very first report, as long as ctx allows.
func (c *Client) State(ctx context.Context) (*State, error) { return nil, errNotYet }

// Refresh reads the state anew from LVM.
func (c *Client) Refresh(ctx context.Context) (*State, error) { return nil, errNotYet }

// Create makes a volume in one command.
func (c *Client) Create(ctx context.Context, req CreateRequest) (LogicalVolume, error) {
	return LogicalVolume{}, errNotYet
}

// CreateThinPool makes a thin pool.
func (c *Client) CreateThinPool(ctx context.Context, req ThinPoolRequest) (LogicalVolume, error) {
	return LogicalVolume{}, errNotYet
}

// Remove deactivates and removes a volume.
func (c *Client) Remove(ctx context.Context, ref Ref) error { return errNotYet }

// Extend makes a volume at least sizeBytes big.
func (c *Client) Extend(ctx context.Context, ref Ref, sizeBytes int64) (LogicalVolume, error) {
	return LogicalVolume{}, errNotYet
}

// Activate makes the device node appear.
func (c *Client) Activate(ctx context.Context, ref Ref) (LogicalVolume, error) {
	return LogicalVolume{}, errNotYet
}

// Deactivate makes the device go away; ErrInUse if it is open.
func (c *Client) Deactivate(ctx context.Context, ref Ref) error { return errNotYet }

// Rename gives a volume a new name in the same volume group.
func (c *Client) Rename(ctx context.Context, ref Ref, newName string) error { return errNotYet }

// ChangeTags adds and removes tags in one command.
func (c *Client) ChangeTags(ctx context.Context, ref Ref, add, remove []string) error {
	return errNotYet
}

// SetVolumeGroups replaces the set of volume groups.
func (c *Client) SetVolumeGroups(groups []VolumeGroupSelector) error { return errNotYet }

// Subscribe returns a channel that gets a value after each change of the state.
func (c *Client) Subscribe() (changes <-chan struct{}, cancel func()) { return nil, func() {} }

// Healthy tells whether LVM answers.
func (c *Client) Healthy(ctx context.Context) error { return errNotYet }

// Close waits for the running command and ends the lvm shell.
func (c *Client) Close() error { return errNotYet }
