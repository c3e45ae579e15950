package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/orphans"
)

const orphansUsage = `Orphans are volumes of this node whose PersistentVolume does not exist.

Usage, in the pod of csi-local node:
  csi-local orphans list           list them
  csi-local orphans adopt NAME     print the PersistentVolume that brings one back; changes nothing
  csi-local orphans delete NAME    delete one, with its data

NAME is the name of the missing PersistentVolume, or the volume's ID.

Flags (one dash or two):

`

// orphansOptions are the flags of csi-local orphans.
type orphansOptions struct {
	socket, output string
	yes            bool
	storageClass   string
	accessMode     string
	volumeMode     string
}

const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

func (o *orphansOptions) flagSet() *flag.FlagSet {
	fs := newFlagSet("orphans")
	fs.StringVar(&o.socket, "admin-socket", filepath.Join(defaultLVMRunDir, adminSocketName), "the socket of csi-local node, as given to it")
	fs.StringVar(&o.output, "o", "", "form of the output: table, json or yaml; list prints a table if not given, adopt YAML")
	fs.BoolVar(&o.yes, "yes", false, "delete: yes, delete the volume and its data")
	fs.StringVar(&o.storageClass, "storage-class", "", "adopt: the PersistentVolume's class, none if empty")
	fs.StringVar(&o.accessMode, "access-mode", string(v1.ReadWriteOnce), "adopt: ReadWriteOnce, ReadWriteOncePod or ReadOnlyMany")
	fs.StringVar(&o.volumeMode, "volume-mode", "", "adopt: Filesystem or Block; as the volume was used if empty")
	return fs
}

// parseOrphansFlags takes flags before and behind the words.
func parseOrphansFlags(args []string) (o *orphansOptions, words []string, err error) {
	o = &orphansOptions{}
	fs := o.flagSet()
	for {
		if err := fs.Parse(args); err != nil {
			return nil, nil, err
		}
		if fs.NArg() == 0 {
			return o, words, nil
		}
		words, args = append(words, fs.Arg(0)), fs.Args()[1:]
	}
}

// orphansCommand is csi-local orphans.
func orphansCommand(ctx context.Context, args []string, stdout io.Writer) error {
	o, words, err := parseOrphansFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if _, err := io.WriteString(stdout, orphansUsage); err != nil {
			return err
		}
		fs := (&orphansOptions{}).flagSet()
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return flag.ErrHelp
	case err != nil:
		return fmt.Errorf("%w: %w; csi-local orphans -h lists the flags", errUsage, err)
	case len(words) == 1 && words[0] == "list":
		return o.list(ctx, stdout)
	case len(words) == 2 && words[0] == "adopt":
		return o.adopt(ctx, words[1], stdout)
	case len(words) == 2 && words[0] == "delete":
		return o.remove(ctx, words[1], stdout)
	default:
		return fmt.Errorf("%w: csi-local orphans is followed by list, adopt NAME or delete NAME; csi-local orphans -h explains them", errUsage)
	}
}

func (o *orphansOptions) list(ctx context.Context, stdout io.Writer) error {
	entries := []orphans.Entry{}
	if err := o.call(ctx, http.MethodGet, pathOrphans, nil, &entries); err != nil {
		return err
	}
	if o.output != "" && o.output != outputTable {
		return o.print(stdout, map[string]any{"items": entries})
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintln(stdout, "No orphans on this node")
		return err
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	_, err := fmt.Fprintln(table, "VOLUME\tPERSISTENTVOLUME\tPOOL\tSIZE\tKIND\tSINCE\tNEXT")
	for _, e := range entries {
		_, lineErr := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			e.VolumeID, e.Name, e.Pool, capacity.ShortBytes(e.SizeBytes), e.Kind, e.Since.UTC().Format(time.RFC3339), e.Next)
		err = errors.Join(err, lineErr)
	}
	return errors.Join(err, table.Flush())
}

func (o *orphansOptions) adopt(ctx context.Context, name string, stdout io.Writer) error {
	var found map[string]any
	params := url.Values{
		paramName: {name}, paramStorageClass: {o.storageClass}, paramAccessMode: {o.accessMode}, paramVolumeMode: {o.volumeMode},
	}
	if err := o.call(ctx, http.MethodGet, pathAdopt, params, &found); err != nil {
		return err
	}
	delete(found, "status") // not for whoever creates it
	return o.print(stdout, found)
}

func (o *orphansOptions) remove(ctx context.Context, name string, stdout io.Writer) error {
	if !o.yes {
		return fmt.Errorf("%w: orphans delete destroys the data of %s; add --yes if that is meant", errUsage, name)
	}
	var deleted orphans.Volume
	if err := o.call(ctx, http.MethodDelete, pathOrphans, url.Values{paramName: {name}}, &deleted); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "Deleted volume %s, %s of pool %s\n", deleted.ID, capacity.ShortBytes(deleted.SizeBytes), deleted.Pool)
	return err
}

func (o *orphansOptions) print(stdout io.Writer, what any) error {
	var text []byte
	var err error
	switch o.output {
	case outputJSON:
		text, err = json.MarshalIndent(what, "", "  ")
		text = append(text, '\n')
	case "", outputYAML:
		text, err = yaml.Marshal(what)
	default:
		return fmt.Errorf("%w: -o %s: must be table (list only), json or yaml", errUsage, o.output)
	}
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}

// call asks csi-local node and waits as long as it takes; a wipe may take hours, and
// goes on when this command is ended.
func (o *orphansOptions) call(ctx context.Context, method, path string, params url.Values, answer any) error {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", o.socket)
		},
	}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, method, "http://csi-local"+path+"?"+params.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("csi-local node does not answer (it must run here, know the API server, and look for orphans): %w", err)
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode == http.StatusOK {
		return decoder.Decode(answer)
	}
	var problem adminError
	if err := decoder.Decode(&problem); err != nil || problem.Error == "" {
		return fmt.Errorf("csi-local node answered %s", response.Status)
	}
	return errors.New(problem.Error)
}
