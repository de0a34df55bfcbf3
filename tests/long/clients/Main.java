// What a program does with the client that openapi-generator makes for Java.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import java.util.UUID;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.AppMemberAuthenticationApi;
import org.openapitools.client.api.FileStorageApi;
import org.openapitools.client.api.TableDataApi;
import org.openapitools.client.api.TablesAndColumnsApi;
import org.openapitools.client.model.*;

public class Main {
  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("SERVER"));
    client.setRequestInterceptor(request -> request.header("X-Public-Key", System.getenv("PUBLIC_KEY")));
    UUID storage = UUID.fromString(System.getenv("STORAGE"));

    TableDefinition definition = new TableDefinition().title("cafes of Java").accessLevel(AccessLevel.PUBLIC)
        .putSchemaItem("name", new ColumnDefinition(ColumnType.STRING))
        .putSchemaItem("rating", new ColumnDefinition(new ColumnOptions().type(ColumnType.NUMBER)));
    UUID table = new TablesAndColumnsApi(client).createTable(definition).getId();
    TableDataApi rows = new TableDataApi(client);
    for (double rating : new double[] {4.5, 3}) {
      rows.createRow(table, new RowInput().data(Map.of("name", "cafe " + rating, "rating", rating)));
    }
    long count = rows.listRows(table, 1L, null).getTotalCount();
    Where where = new Where();
    where.putAdditionalProperty("rating", Map.of("$gte", 4));
    QueryResult found = rows.queryRows(table, new Query().where(where));

    FileStorageApi files = new FileStorageApi(client);
    UploadInput upload = new UploadInput().fileName("cat.txt").fileSize(4L).mimeType("text/plain");
    UploadPermit permit = files.createUpload(storage, upload);
    HttpRequest.Builder bytes = HttpRequest.newBuilder(URI.create(permit.getUploadUrl()))
        .method(permit.getMethod(), HttpRequest.BodyPublishers.ofString("meow"));
    permit.getHeaders().forEach(bytes::header);
    int status = HttpClient.newHttpClient().send(bytes.build(), HttpResponse.BodyHandlers.discarding()).statusCode();
    if (status != 200) throw new IllegalStateException("" + status);
    FileItem file = files.completeUpload(storage, new CompleteUpload().fileId(permit.getFileId()));

    AppMemberAuthenticationApi members = new AppMemberAuthenticationApi(client);
    String password = "correct horse battery";
    SignedIn member = members.signUpMember(new SignUp().loginId("java").password(password));
    SignedIn again = members.signInMember(new SignIn().loginId("java").password(password));
    boolean same = member.getMemberId().equals(again.getMemberId());
    Object name = found.getData().get(0).getData().get("name");
    System.out.println("[\"" + name + "\"," + count + "," + file.getSize() + "," + same + "]");
  }
}
