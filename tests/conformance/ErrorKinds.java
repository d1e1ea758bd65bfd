import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RefreshRetriableException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TransactionAbortableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints each error code of Kafka's with its name and the class of KIP-1050 that its exception is of. */
public class ErrorKinds {
    public static void main(String[] none) {
        for (Errors each : Errors.values())
            if (each != Errors.NONE)
                System.out.println(each.code() + " " + each.name() + " " + kind(each.exception()));
    }

    private static String kind(Exception error) {
        if (error instanceof TransactionAbortableException) return "ABORTABLE";
        if (error instanceof InvalidMetadataException) return "REFRESH_RETRIABLE";
        if (error instanceof RefreshRetriableException) return "COORDINATOR_RETRIABLE";
        if (error instanceof RetriableException) return "RETRIABLE";
        if (error instanceof ApplicationRecoverableException) return "APPLICATION_RECOVERABLE";
        if (error instanceof InvalidConfigurationException) return "INVALID_CONFIGURATION";
        return "PLAIN";
    }
}
