// What a program does with the client that oapi-codegen makes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	pilotis "example.com/pilotis/client"
	"github.com/google/uuid"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	withKey := pilotis.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("X-Public-Key", os.Getenv("PUBLIC_KEY"))
		return nil
	})
	client := must(pilotis.NewClientWithResponses(os.Getenv("SERVER"), withKey))
	ctx, storage := context.Background(), must(uuid.Parse(os.Getenv("STORAGE")))

	var name, rating pilotis.ColumnDefinition
	must(0, name.FromColumnType(pilotis.ColumnTypeString))
	must(0, rating.FromColumnOptions(pilotis.ColumnOptions{Type: pilotis.ColumnTypeNumber}))
	definition := pilotis.TableDefinition{
		Title:       "cafes of oapi-codegen",
		Schema:      map[string]pilotis.ColumnDefinition{"name": name, "rating": rating},
		AccessLevel: pilotis.AccessLevelPublic,
	}
	table := must(client.CreateTableWithResponse(ctx, definition)).JSON201.Id
	for _, rating := range []float64{4.5, 3} {
		row := pilotis.RowInput{Data: map[string]interface{}{"name": fmt.Sprintf("cafe %v", rating), "rating": rating}}
		if made := must(client.CreateRowWithResponse(ctx, table, row)); made.StatusCode() != 201 {
			panic(string(made.Body))
		}
	}
	limit := int64(1)
	rows := must(client.ListRowsWithResponse(ctx, table, &pilotis.ListRowsParams{Limit: &limit})).JSON200.TotalCount
	var where pilotis.Where
	must(0, json.Unmarshal([]byte(`{"rating": {"$gte": 4}}`), &where))
	found := must(client.QueryRowsWithResponse(ctx, table, pilotis.Query{Where: &where})).JSON200.Data

	upload := pilotis.UploadInput{FileName: "cat.txt", FileSize: 4, MimeType: "text/plain"}
	permit := must(client.CreateUploadWithResponse(ctx, storage, upload)).JSON200
	request := must(http.NewRequest(permit.Method, permit.UploadUrl, strings.NewReader("meow")))
	for name, value := range permit.Headers {
		request.Header.Set(name, value)
	}
	if sent := must(http.DefaultClient.Do(request)); sent.StatusCode != 200 {
		panic(sent.Status)
	}
	file := must(client.CompleteUploadWithResponse(ctx, storage, pilotis.CompleteUpload{FileId: permit.FileId})).JSON200

	account := pilotis.SignUp{LoginId: "oapi", Password: "correct horse battery"}
	member := must(client.SignUpMemberWithResponse(ctx, account)).JSON201
	in := pilotis.SignIn{LoginId: account.LoginId, Password: account.Password}
	again := must(client.SignInMemberWithResponse(ctx, in)).JSON200
	output := must(json.Marshal([]interface{}{found[0].Data["name"], rows, file.Size, member.MemberId == again.MemberId}))
	fmt.Println(string(output))
}
