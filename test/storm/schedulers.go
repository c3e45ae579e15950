package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/csi-local/csi-local/test/testbed"
)

// leaderLine is what client-go's leader election logs.
const leaderLine = "Successfully acquired lease"

// schedulers are one scheduler process, or one and its standby, of which any may
// be killed. Its methods are not safe for concurrent use.
type schedulers struct {
	cluster *testbed.Cluster
	program string
	args    []string
	remove  func() error // takes the configuration file away
	members []*testbed.Process
	starts  int
	// kills are those on purpose, exits all others; takeovers are how often a
	// member that was not the leader became it.
	kills, exits, takeovers int
	leader                  *testbed.Process // as last seen
}

func newSchedulers(cluster *testbed.Cluster, program string, config schedulerConfig, logLevel int) (*schedulers, error) {
	config.kubeconfig = cluster.KubeconfigPath()
	path, remove, err := config.write()
	if err != nil {
		return nil, err
	}
	return &schedulers{cluster: cluster, program: program, remove: remove,
		args: []string{"--config=" + path, "--secure-port=0", fmt.Sprintf("-v=%d", logLevel)}}, nil
}

// start starts so many members.
func (s *schedulers) start(members int) error {
	for range members {
		if err := s.add(); err != nil {
			return err
		}
	}
	return nil
}

// startLeading starts so many members, and returns when one of them leads.
func (s *schedulers) startLeading(ctx context.Context, members int) error {
	if err := s.start(members); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		leading, err := s.leading()
		if err != nil || leading {
			return leading, err
		}
		select {
		case <-s.members[0].Done():
			return false, s.members[0].Ended()
		default:
			return false, nil
		}
	})
	if err != nil {
		return fmt.Errorf("no scheduler leads: %w", err)
	}
	return nil
}

// add starts one more member; each has a log of its own.
func (s *schedulers) add() error {
	s.starts++
	p, err := s.cluster.StartProcess(fmt.Sprintf("scheduler-%02d", s.starts), s.program, s.args...)
	if err != nil {
		return err
	}
	s.members = append(s.members, p)
	return nil
}

// leading looks whether a member leads, and remembers it. One that leads no more
// ends itself.
func (s *schedulers) leading() (bool, error) {
	if s.leader != nil && !ended(s.leader) {
		return true, nil
	}
	for _, p := range s.members {
		if ended(p) {
			continue
		}
		log, err := os.ReadFile(p.LogPath())
		if err != nil {
			return false, err
		}
		if !bytes.Contains(log, []byte(leaderLine)) {
			continue
		}
		if s.leader != nil && s.leader != p {
			s.takeovers++
		}
		s.leader = p
		return true, nil
	}
	return false, nil
}

func ended(p *testbed.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// tend starts a member anew that has ended by itself, as a kubelet would.
func (s *schedulers) tend() error {
	for i := 0; i < len(s.members); i++ {
		if !ended(s.members[i]) {
			continue
		}
		s.exits++
		s.members = append(s.members[:i], s.members[i+1:]...)
		if err := s.add(); err != nil {
			return err
		}
	}
	return nil
}

// killLeader has the standby take over, and the killed one stand by.
func (s *schedulers) killLeader() error {
	for i, p := range s.members {
		if p != s.leader {
			continue
		}
		s.kills++
		s.members = append(s.members[:i], s.members[i+1:]...)
		return errors.Join(p.Kill(), s.add())
	}
	return errors.New("the leader is not among the schedulers")
}

// killAll has everything begin anew from what the API server has.
func (s *schedulers) killAll() error {
	members := len(s.members)
	s.kills += members
	return errors.Join(s.stop(), s.start(members))
}

// stop kills all members.
func (s *schedulers) stop() error {
	var problems []error
	for _, p := range s.members {
		problems = append(problems, p.Kill())
	}
	s.members = nil
	return errors.Join(problems...)
}

// end stops and leaves nothing behind.
func (s *schedulers) end() error { return errors.Join(s.stop(), s.remove()) }
