package schedplugin

import (
	"math"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/csi-local/csi-local/pkg/capacity"
)

const (
	minOversellRatio = 0.001
	maxPoolWeight    = 100
	// maxDriverNameBytes is the CSI specification's, GetPluginInfo.
	maxDriverNameBytes = 63
)

// ValidateLocalCapacityArgs checks the arguments, defaults filled in, and
// returns all problems with the paths of their fields, or nil.
func ValidateLocalCapacityArgs(path *field.Path, args *LocalCapacityArgs) error {
	var problems field.ErrorList
	if args.APIVersion != "" && args.APIVersion != ArgsAPIVersion {
		problems = append(problems, field.NotSupported(path.Child("apiVersion"), args.APIVersion, []string{ArgsAPIVersion}))
	}
	if args.Kind != "" && args.Kind != ArgsKind {
		problems = append(problems, field.NotSupported(path.Child("kind"), args.Kind, []string{ArgsKind}))
	}
	problems = append(problems, validateDrivers(path.Child("driverNames"), args.DriverNames)...)
	problems = append(problems, validateRatio(path.Child("oversellRatio"), args.OversellRatio)...)
	problems = append(problems, validatePools(path.Child("pools"), args.Pools)...)
	problems = append(problems, validateStrategy(path.Child("scoringStrategy"), args.ScoringStrategy)...)
	return problems.ToAggregate()
}

func validateDrivers(path *field.Path, names []string) (problems field.ErrorList) {
	if len(names) == 0 {
		return field.ErrorList{field.Required(path, "at least one driver")}
	}
	seen := sets.New[string]()
	for i, name := range names {
		at := path.Index(i)
		if seen.Has(name) {
			problems = append(problems, field.Duplicate(at, name))
		}
		seen.Insert(name)
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			problems = append(problems, field.Invalid(at, name, problem))
		}
		if len(name) > maxDriverNameBytes {
			problems = append(problems, field.TooLong(at, name, maxDriverNameBytes))
		}
	}
	return problems
}

func validateRatio(path *field.Path, ratio *float64) field.ErrorList {
	switch {
	case ratio == nil:
		return field.ErrorList{field.Required(path, "a ratio such as 1.0")}
	case !(*ratio >= minOversellRatio) || *ratio > capacity.MaxRatio:
		return field.ErrorList{field.Invalid(path, *ratio, "must be from 0.001 to 1000")}
	case math.Abs(*ratio*1000-math.Round(*ratio*1000)) > 1e-6:
		return field.ErrorList{field.Invalid(path, *ratio, "at most three decimals")}
	}
	return nil
}

func validatePools(path *field.Path, pools []PoolArgs) (problems field.ErrorList) {
	seen := sets.New[string]()
	for i, p := range pools {
		at := path.Index(i)
		problems = append(problems, validatePoolName(at.Child("name"), p.Name, seen)...)
		problems = append(problems, validateRatio(at.Child("oversellRatio"), p.OversellRatio)...)
	}
	return problems
}

func validatePoolName(path *field.Path, name string, seen sets.Set[string]) (problems field.ErrorList) {
	if err := capacity.ValidatePoolName(name); err != nil {
		problems = append(problems, field.Invalid(path, name, err.Error()))
	}
	if seen.Has(name) {
		problems = append(problems, field.Duplicate(path, name))
	}
	seen.Insert(name)
	return problems
}

func validateStrategy(path *field.Path, strategy *ScoringStrategy) (problems field.ErrorList) {
	if strategy == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if strategy.Type != Spread && strategy.Type != Pack {
		problems = append(problems, field.NotSupported(path.Child("type"), strategy.Type, []ScoringStrategyType{Spread, Pack}))
	}
	seen := sets.New[string]()
	for i, p := range strategy.Pools {
		at := path.Child("pools").Index(i)
		problems = append(problems, validatePoolName(at.Child("name"), p.Name, seen)...)
		if p.Weight < 1 || p.Weight > maxPoolWeight {
			problems = append(problems, field.Invalid(at.Child("weight"), p.Weight, "must be from 1 to 100"))
		}
	}
	return problems
}
