package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/csi-local/csi-local/pkg/schedplugin"
)

var (
	errNoConfig = errors.New("--config is required: without a configuration file the plugin " + schedplugin.Name + " would be off")
	errOff      = errors.New("the plugin " + schedplugin.Name + " is off, and local volumes would be promised twice: " +
		"list it under plugins.multiPoint.enabled of at least one profile")
	errHalf = errors.New("the plugin " + schedplugin.Name + " needs this extension point, or it would promise the same bytes twice")
)

// newCommand is kube-scheduler's command with one more plugin, and one more
// check: a process of this name never runs with that plugin forgotten.
func newCommand() *cobra.Command {
	command := app.NewSchedulerCommand(app.WithPlugin(schedplugin.Name, schedplugin.NewFactory()))
	command.Use = "csi-local-scheduler"
	command.Short = "kube-scheduler with the plugin " + schedplugin.Name
	command.Long = "csi-local-scheduler is kube-scheduler with the plugin " + schedplugin.Name + ", which places pods\n" +
		"with local volumes where their pools have room, and never promises the same bytes twice.\n" +
		"Everything else, flags included, is as in kube-scheduler."
	command.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if asked := cmd.Flags().Lookup("version"); asked != nil && asked.Changed {
			return nil // prints the version and ends
		}
		path, err := cmd.Flags().GetString("config")
		if err != nil {
			return err
		}
		return checkEnabled(klog.Background(), path)
	}
	return command
}

// checkEnabled returns an error unless a profile of the configuration file has
// the plugin on, and none has it on by halves. The plugin cannot tell by itself:
// it is not asked at an extension point that is off.
func checkEnabled(logger klog.Logger, path string) error {
	if path == "" {
		return errNoConfig
	}
	cfg, err := options.LoadConfigFromFile(logger, path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	on := false
	for i := range cfg.Profiles {
		plugins := cfg.Profiles[i].Plugins
		if plugins == nil || !listed(plugins.MultiPoint.Enabled, schedplugin.Name) {
			continue
		}
		on = true
		for _, p := range indispensable(plugins) {
			if listed(p.set.Disabled, schedplugin.Name) || listed(p.set.Disabled, everyPlugin) && !listed(p.set.Enabled, schedplugin.Name) {
				return fmt.Errorf("%s: profile %s: plugins.%s.disabled: %w", path, cfg.Profiles[i].SchedulerName, p.name, errHalf)
			}
		}
	}
	if !on {
		return fmt.Errorf("%s: %w", path, errOff)
	}
	return nil
}

// everyPlugin stands for all plugins in a list of disabled ones.
const everyPlugin = "*"

type point struct {
	name string
	set  config.PluginSet
}

// indispensable are the extension points without which the books would be wrong;
// without the others, the plugin only prefers and explains less.
func indispensable(p *config.Plugins) []point {
	return []point{{"preFilter", p.PreFilter}, {"filter", p.Filter}, {"reserve", p.Reserve}, {"permit", p.Permit}, {"postBind", p.PostBind}}
}

func listed(plugins []config.Plugin, name string) bool {
	return slices.ContainsFunc(plugins, func(p config.Plugin) bool { return p.Name == name })
}
