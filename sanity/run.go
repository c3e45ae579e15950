package sanity

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	csisanity "github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/formatter"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
)

// IdempotentCount is how often csi-sanity repeats each call that must be idempotent.
const IdempotentCount = 5

// Variant is one kind of volume to ask about.
type Variant struct {
	// Name tells it from the others, such as "thin, block".
	Name string
	// Endpoint is the driver's socket, such as unix:///csi/csi.sock. Variants may share it.
	Endpoint string
	// KubeletDir is the driver's; its folders pods and plugins exist.
	KubeletDir string
	// Parameters are the class's.
	Parameters map[string]string
	// Block asks for raw block volumes instead of file systems.
	Block bool
	// VolumeBytes is the size of most volumes; the driver must be able to make it
	// exactly. ExpandedBytes is what they are expanded to.
	VolumeBytes, ExpandedBytes int64
}

// TargetPath is the folder above target paths, where kubelet has those of pods: the
// driver tells by the place what a mount is.
func (v Variant) TargetPath() string { return filepath.Join(v.KubeletDir, "pods", "sanity") }

// StagingPath is where volumes are staged.
func (v Variant) StagingPath() string { return filepath.Join(v.KubeletDir, "plugins", "sanity") }

func (v Variant) config() csisanity.TestConfig {
	c := csisanity.NewTestConfig()
	c.Address = v.Endpoint
	c.TargetPath = v.TargetPath()
	c.StagingPath = v.StagingPath()
	c.TestVolumeSize = v.VolumeBytes
	c.TestVolumeExpandSize = v.ExpandedBytes
	c.TestVolumeParameters = v.Parameters
	c.TestVolumeAccessType = "mount"
	if v.Block {
		c.TestVolumeAccessType = "block"
	}
	c.IdempotentCount = IdempotentCount
	// A fresh folder for each spec: what one left behind must not fail all that follow.
	c.CreateTargetDir = freshFolder
	c.CreateStagingDir = freshFolder
	c.CheckPath = pathKind
	return c
}

func freshFolder(path string) (string, error) {
	return os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+"-")
}

// pathKind is csi-sanity's own check, which it leaves out when the folders are not its own.
func pathKind(path string) (csisanity.PathKind, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return csisanity.PathIsNotFound, nil
	case err != nil:
		return "", err
	case info.Mode().IsRegular():
		return csisanity.PathIsFile, nil
	case info.IsDir():
		return csisanity.PathIsDir, nil
	default:
		return csisanity.PathIsOther, nil
	}
}

// failures notes that a suite failed; the specs say why.
type failures struct{ failed bool }

func (f *failures) Fail() { f.failed = true }

// Run asks everything about each variant and reports each spec as a subtest named
// VARIANT/SPEC. A spec that was left out fails the test unless [Unadvertised] has it.
// The suite's machinery allows one call per process.
func Run(t *testing.T, variants ...Variant) {
	t.Helper()
	report, ok := runSuite(variants)
	specs := specsOf(report, true)
	byVariant := map[string][]Spec{}
	for _, s := range specs {
		byVariant[s.Variant] = append(byVariant[s.Variant], s)
	}
	for _, v := range variants {
		t.Run(v.Name, func(t *testing.T) { reportVariant(t, v, byVariant[v.Name]) })
	}
	if !ok && Count(specs)[Failed] == 0 {
		t.Errorf("csi-sanity failed as a whole: %q", report.SpecialSuiteFailureReasons)
	}
}

// runSuite runs csi-sanity without letting it print: what failed is in the report.
func runSuite(variants []Variant) (types.Report, bool) {
	var report types.Report
	contexts := make([]*csisanity.TestContext, len(variants))
	configs := make([]csisanity.TestConfig, len(variants))
	for i, v := range variants {
		configs[i] = v.config()
		ginkgo.Describe(v.Name, func() { contexts[i] = csisanity.GinkgoTest(&configs[i]) })
	}
	ginkgo.ReportAfterSuite("keep the report", func(r ginkgo.Report) { report = r })
	gomega.RegisterFailHandler(ginkgo.Fail)
	formatter.ColorableStdOut = io.Discard
	formatter.ColorableStdErr = io.Discard

	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.RandomSeed = 1 // the same order in every run
	suite.Timeout = time.Hour
	var result failures
	ok := ginkgo.RunSpecs(&result, "csi-sanity", suite, reporter, ginkgo.Label())
	for _, c := range contexts {
		c.Finalize()
	}
	return report, ok && !result.failed
}

func reportVariant(t *testing.T, v Variant, specs []Spec) {
	for _, s := range specs {
		switch s.Outcome {
		case Passed:
			t.Run(s.Name, func(*testing.T) {})
		case Failed:
			t.Run(s.Name, func(t *testing.T) { t.Errorf("%s\n%s", s.Message, s.Output) })
		}
	}
	t.Run("nothing that is advertised was skipped", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		advertised, err := Advertised(ctx, v.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range Unjustified(specs, Unadvertised(), advertised) {
			t.Error(line)
		}
		if Count(specs)[Passed] == 0 {
			t.Error("no spec passed: csi-sanity asked nothing")
		}
	})
	count := Count(specs)
	var took time.Duration
	for _, s := range specs {
		took += s.Took
	}
	t.Logf("csi-sanity, %s: %d passed, %d failed, %d of capabilities that are not advertised, %d switched off upstream, in %v",
		v.Name, count[Passed], count[Failed], count[Skipped], count[Pending], took.Round(100*time.Millisecond))
}
