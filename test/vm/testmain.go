package vm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// bootAllowance is added to the tests' own time limit, so that theirs comes first and
// tells which test it was.
const bootAllowance = 2 * time.Minute

// Main is for TestMain of packages whose tests need device mapper:
//
//	func TestMain(m *testing.M) { vm.Main(m, vm.Options{Disks: []vm.Disk{{SizeBytes: 5 << 30}}}) }
//
// Inside a machine it runs the tests. Outside it starts this very test binary again, with
// the same arguments and working directory, in a machine, and exits with its status. Tests
// that cannot have a machine fail; they are never skipped. Profiles and coverage land where
// the testing package was told to put them. Command, Dir, Stdout and Stderr of the options
// are set here, and Timeout when it is 0. Main does not return.
func Main(m *testing.M, o Options) { os.Exit(Run(m, o)) }

// Run is Main for a TestMain that has to tidy up outside of the machine: it returns the
// status to exit with.
func Run(m *testing.M, o Options) int {
	if !flag.Parsed() {
		flag.Parse()
	}
	if Inside() || onlyLists() {
		return m.Run()
	}
	status, err := runTests(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		var missing *MissingError
		if errors.As(err, &missing) {
			fmt.Fprintln(os.Stderr, "vm: these tests need a kernel with device mapper, and are not skipped without one")
		}
	}
	return ExitStatus(status, err)
}

// onlyLists says that no test will run, so none needs a machine.
func onlyLists() bool {
	list := flag.Lookup("test.list")
	return list != nil && list.Value.String() != ""
}

func runTests(o Options) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(),
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	results, err := newTestResults()
	if err != nil {
		return 0, err
	}
	defer results.remove()
	o.Command = slices.Concat([]string{self}, testArgs(os.Args[1:], flag.NArg(), results.overrides))
	o.Dir = ""
	o.Stdout, o.Stderr = os.Stdout, os.Stderr
	o.Shares = append(slices.Clone(o.Shares), Share{Host: results.dir, Guest: results.dir})
	if limit := testTimeout(); o.Timeout == 0 && limit > 0 {
		o.Timeout = limit + bootAllowance
	}
	machine, err := Start(ctx, o)
	if err != nil {
		return 0, err
	}
	status, err := machine.Wait()
	return status, errors.Join(err, results.collect())
}

func testTimeout() time.Duration {
	if f := flag.Lookup("test.timeout"); f != nil {
		if getter, ok := f.Value.(flag.Getter); ok {
			limit, _ := getter.Get().(time.Duration)
			return limit
		}
	}
	return 0
}

// testArgs puts flags before the first of the nonFlags last arguments, so that they win
// over the same flags before them.
func testArgs(args []string, nonFlags int, overrides []string) []string {
	split := len(args) - nonFlags
	flags, rest := args[:split], args[split:]
	if n := len(flags); n > 0 && flags[n-1] == "--" {
		flags, rest = flags[:n-1], args[split-1:]
	}
	return slices.Concat(flags, overrides, rest)
}

// testResults are the files that the testing package writes: inside the machine into a
// shared folder, and from there to where they were asked for.
type testResults struct {
	dir       string
	overrides []string
	moves     []move
}

// move is a file, or a folder whose files are copied one by one.
type move struct{ from, to string }

var profileFlags = []string{
	"test.coverprofile", "test.cpuprofile", "test.memprofile", "test.blockprofile", "test.mutexprofile", "test.trace",
}

var folderFlags = []string{"test.gocoverdir", "test.outputdir"}

func newTestResults() (*testResults, error) {
	dir, err := os.MkdirTemp("", "vm-test-")
	if err != nil {
		return nil, err
	}
	r := &testResults{dir: dir}
	value := func(name string) string {
		if f := flag.Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	for _, name := range profileFlags {
		if path := value(name); path != "" {
			if !filepath.IsAbs(path) {
				path = filepath.Join(value("test.outputdir"), path)
			}
			r.redirect(name, path)
		}
	}
	for _, name := range folderFlags {
		if path := value(name); path != "" {
			if err := os.Mkdir(r.redirect(name, path), 0o755); err != nil {
				r.remove()
				return nil, err
			}
		}
	}
	if value("test.testlogfile") != "" {
		// It tells go test which files a cached result depends on. Those of another kernel
		// mean nothing here; without the log the result is not cached.
		r.overrides = append(r.overrides, "-test.testlogfile=")
	}
	return r, nil
}

func (r *testResults) redirect(name, to string) (from string) {
	from = filepath.Join(r.dir, name)
	r.overrides = append(r.overrides, "-"+name+"="+from)
	r.moves = append(r.moves, move{from, to})
	return from
}

func (r *testResults) remove() { _ = os.RemoveAll(r.dir) }

// collect copies what there is: a run that failed early has written only some of it.
func (r *testResults) collect() error {
	var errs []error
	for _, m := range r.moves {
		errs = append(errs, m.do())
	}
	return errors.Join(errs...)
}

func (m move) do() error {
	info, err := os.Stat(m.from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return copyFile(m.from, m.to)
	}
	return filepath.WalkDir(m.from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(m.from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(m.to, name)
		if entry.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		return copyFile(path, to)
	})
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
