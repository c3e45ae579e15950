package testbed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
)

// Request is one that the API server has answered.
type Request struct {
	User  string
	Agent string
	// Verb is one of get, list, watch, create, update, patch, delete, or in lower
	// case the HTTP method of a request for no resource.
	Verb string
	// Resource is the plural, as "nodes"; Subresource may be empty.
	Resource, Subresource, Name string
	// Code is the HTTP status.
	Code int
	// Received is when it came, by the API server's clock.
	Received time.Time
	// Precondition is the resourceVersion that a write of a Node or CSINode named,
	// Version the one that its answer had. Else they are empty.
	Precondition, Version string
}

// Write tells whether the request could have changed something.
func (r Request) Write() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete":
		return true
	}
	return false
}

func (c *Cluster) auditLog() string { return filepath.Join(c.logs, "audit.log") }

// auditPause is how long to wait before the log is read again, auditPatience how
// long to do so.
const (
	auditPause    = 20 * time.Millisecond
	auditPatience = 20 * time.Second
)

// Audit returns everything that was asked of the API server and answered until
// now, in the order of the answers.
func (c *Cluster) Audit(ctx context.Context) ([]Request, error) {
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	// The log is written after the answer, so what was answered just now may not be
	// in it. A request of our own that came later tells.
	marker := fmt.Sprintf("/testbed-audit-%d", time.Now().UnixNano())
	client, err := discovery.NewDiscoveryClientForConfig(c.Admin())
	if err != nil {
		return nil, err
	}
	// There is no such path; to have asked is enough.
	_ = client.RESTClient().Get().AbsPath(marker).Do(ctx).Error()
	tick := time.NewTicker(auditPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the audit log lacks the last request: %w", ctx.Err())
		case <-tick.C:
		}
		requests, seen, err := c.readAudit(marker)
		if err != nil || seen {
			return requests, err
		}
	}
}

// auditEvent is what of audit.k8s.io/v1 Event matters here.
type auditEvent struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ImpersonatedUser *struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Stage                    string      `json:"stage"`
	RequestReceivedTimestamp time.Time   `json:"requestReceivedTimestamp"`
	RequestObject            auditObject `json:"requestObject"`
	ResponseObject           auditObject `json:"responseObject"`
}

// auditObject is an object or a patch of any kind. Patches that are lists have no
// resourceVersion to be read here, and so count as writes without one.
type auditObject struct{ version string }

func (o *auditObject) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte("{")) {
		return nil
	}
	var object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(text, &object)
	o.version = object.Metadata.ResourceVersion
	return err
}

// readAudit reads the whole log, up to the request for the path marker.
func (c *Cluster) readAudit(marker string) (requests []Request, seen bool, err error) {
	file, err := os.Open(c.auditLog())
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = file.Close() }()
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return requests, false, nil // the last line may be half a line still
		}
		if err != nil {
			return nil, false, err
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			// A server that is killed leaves half a line, and the next one goes on behind it.
			continue
		}
		if path, _, _ := strings.Cut(event.RequestURI, "?"); path == marker {
			return requests, true, nil
		}
		// A watch has a line when it begins and another when it ends.
		if event.Stage == "ResponseComplete" && event.Verb == "watch" {
			continue
		}
		requests = append(requests, event.request())
	}
}

func (e auditEvent) request() Request {
	r := Request{
		User: e.User.Username, Agent: e.UserAgent, Verb: e.Verb,
		Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, Received: e.RequestReceivedTimestamp,
		Precondition: e.RequestObject.version, Version: e.ResponseObject.version,
	}
	if e.ImpersonatedUser != nil {
		r.User = e.ImpersonatedUser.Username
	}
	return r
}
