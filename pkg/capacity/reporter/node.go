package reporter

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// identity says who writes.
type identity struct {
	driverName, version, bootID string
}

// nodeView is what stands on the Node now.
type nodeView struct {
	text      string           // the pools' annotation
	there     bool             // it exists
	published map[string]int64 // its readable figures
	report    capacity.Report
	reportOK  bool
	paused    bool
	labels    labels.Set
}

func (id identity) view(node Object) nodeView {
	v := nodeView{labels: node.Labels}
	v.text, v.there = node.Annotations[capacity.PoolsAnnotation(id.driverName)]
	// What cannot be read counts for nobody, so it is as good as not published.
	v.published, _, _ = capacity.DecodePools(v.text)
	report, err := capacity.DecodeReport(node.Annotations[capacity.ReportAnnotation(id.driverName)])
	v.report, v.reportOK = report, err == nil
	pause := node.Annotations[capacity.PauseAnnotation(id.driverName)]
	v.paused = pause != "" && pause != "false"
	return v
}

// poolFacts are what the report says of the pools.
type poolFacts struct {
	extentSizes map[string]int64
	filesystems map[string]capacity.Filesystem
}

// facts are those of the readings, and what is published already of pools that
// are configured and cannot be read now.
func (v nodeView) facts(readings []capacity.PoolReading) poolFacts {
	f := poolFacts{extentSizes: map[string]int64{}, filesystems: map[string]capacity.Filesystem{}}
	for _, reading := range readings {
		if size := v.report.ExtentSizes[reading.Pool]; size > 0 {
			f.extentSizes[reading.Pool] = size
		}
		if reading.Err == nil && reading.ExtentSizeBytes > 0 {
			f.extentSizes[reading.Pool] = reading.ExtentSizeBytes
		}
		if reading.Filesystem != capacity.FilesystemNone {
			f.filesystems[reading.Pool] = reading.Filesystem
		}
	}
	return f
}

func (f poolFacts) stand(r capacity.Report) bool {
	return maps.Equal(r.ExtentSizes, f.extentSizes) && maps.Equal(r.Filesystems, f.filesystems)
}

// nodeChange compares the plan with what stands there. It returns nil if
// nothing is to be written. wall is the node's clock, for people to read.
func (id identity) nodeChange(v nodeView, p plan, facts poolFacts, takeover bool, wall time.Time) (*Change, error) {
	text, err := capacity.EncodePools(p.pools)
	if err != nil {
		return nil, err
	}
	same := v.there && text == v.text
	if len(p.pools) == 0 && !v.there {
		same = true // nothing is known yet, and nothing is claimed
	}
	reportStands := v.reportOK && facts.stand(v.report) && !takeover
	if same && (reportStands || !v.there) {
		return nil, nil //nolint:nilnil // no change is no error
	}
	report := capacity.Report{
		Format: capacity.ReportFormat, Writer: id.version, BootID: id.bootID, Generation: 1,
		Changed:     wall.UTC().Truncate(time.Second),
		ExtentSizes: facts.extentSizes, Filesystems: facts.filesystems,
	}
	if v.reportOK {
		report.Generation = v.report.Generation + 1
		if same {
			report.Changed = v.report.Changed
		}
	}
	if report.Generation < 1 { // of a newer format, or counted to the end
		report.Generation = 1
	}
	if same && report.Changed.IsZero() {
		report.Changed = wall.UTC().Truncate(time.Second)
	}
	reportText, err := capacity.EncodeReport(report)
	if err != nil {
		return nil, err
	}
	return &Change{Set: map[string]string{
		capacity.PoolsAnnotation(id.driverName):  text,
		capacity.ReportAnnotation(id.driverName): reportText,
	}}, nil
}
